// The addon's functions for contention profiles.

#pragma once

#include <napi.h>

namespace stripelock {

void addContention(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
