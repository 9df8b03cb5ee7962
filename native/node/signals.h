// The addon's functions for the senders of signals.

#pragma once

#include <napi.h>

namespace stripelock {

void addSignals(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
