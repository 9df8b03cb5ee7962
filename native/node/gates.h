// Those of the addon's exports that are about fencing gates.

#pragma once

#include <napi.h>

namespace stripelock {

void addGates(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
