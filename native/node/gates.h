// The addon's functions for fencing gates.

#pragma once

#include <napi.h>

namespace stripelock {

void addGates(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
