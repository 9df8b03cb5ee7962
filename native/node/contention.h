// Profiles of contention.

#pragma once

#include <napi.h>

namespace stripelock {

void addContention(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
