// The addon's functions that acquire and release, and look after what waits.

#pragma once

#include <napi.h>

namespace stripelock {

void addAcquisitions(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
