// The addon's functions that tell people what is held and waited for, and take notes for that.

#pragma once

#include <napi.h>

namespace stripelock {

void addInspection(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
