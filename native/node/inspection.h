// The addon's functions that show people what is held and waited for, and that add and remove notes.

#pragma once

#include <napi.h>

namespace stripelock {

void addInspection(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
