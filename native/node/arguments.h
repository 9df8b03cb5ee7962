// Checks of what JavaScript passes. lib/ has checked what users pass; these keep a wrong call from crashing.

#pragma once

#include <napi.h>

#include <string>

#include "node/environment.h"

namespace stripelock {

// Throws a JavaScript TypeError with code ERR_INVALID_ARG_TYPE; returns undefined for convenience.
Napi::Value invalidArgument(Napi::Env env, const char* message);

bool isInt32Array(Napi::Value value);
bool isBoolean(Napi::Value value);
// A number that is an integer from 0 to `most`.
bool isIndex(Napi::Value value, std::uint32_t most);

// The table that an argument names, or nullptr with an exception pending.
Membership* tableArgument(const Napi::CallbackInfo& info, std::size_t index);

// (table, stripes, taken, shared, timeout, note?) as the acquisitions take them. False: an exception is pending.
struct AcquireArguments {
  Membership* membership = nullptr;
  Request request{};
  std::string note;
};
bool acquireArguments(const Napi::CallbackInfo& info, AcquireArguments& arguments);

}  // namespace stripelock
