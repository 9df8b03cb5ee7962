// Those of the addon's exports that acquire and release.

#pragma once

#include <napi.h>

namespace stripelock {

void addAcquisitions(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
