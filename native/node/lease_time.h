// The addon's functions for clocks, and for leases that are extended while their thread lives.

#pragma once

#include <napi.h>

namespace stripelock {

// Adds the functions that lib/engine/native/leases.ts calls, besides those of addLeases().
void addLeaseTime(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
