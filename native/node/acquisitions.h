// The addon's functions that acquire and release stripes, and that manage pending acquisitions.

#pragma once

#include <napi.h>

namespace stripelock {

void addAcquisitions(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
