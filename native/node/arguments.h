// Checks of what JavaScript passes. lib/ has checked what users pass; these keep a wrong call from crashing.

#pragma once

#include <napi.h>

#include <vector>

#include "node/environment.h"

namespace stripelock {

// Throws a JavaScript TypeError with code ERR_INVALID_ARG_TYPE; returns undefined for convenience.
Napi::Value invalidArgument(Napi::Env env, const char* message);

bool isInt32Array(Napi::Value value);
// Whether the core may keep its address: that of an ArrayBuffer's memory ends when it is detached, that of a
// SharedArrayBuffer's, growable or not, stays while there is a reference to it.
bool isShared(Napi::TypedArray array);
bool isBoolean(Napi::Value value);
// A number that is an integer from 0 to `most`.
inline bool isIndex(double number, std::uint32_t most) {
  // False for NaN too.
  return number >= 0 && number <= most && number == static_cast<double>(static_cast<std::uint32_t>(number));
}
bool isIndex(Napi::Value value, std::uint32_t most);

// The table that an argument names, or nullptr with an exception pending.
Membership* tableArgument(const Napi::CallbackInfo& info, std::size_t index);

Napi::Array toArray(Napi::Env env, const std::vector<std::int32_t>& numbers);

}  // namespace stripelock
