// The addon's functions that list holders and waiters, and that add and remove notes.

#pragma once

#include <napi.h>

namespace stripelock {

void addInspection(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
