// The exact keys of a table: which stripe each of them has.

#pragma once

#include <napi.h>

#include <string>

namespace stripelock {

void addExactKeys(Napi::Env env, Napi::Object exports);

// The key that was pinned as these bytes: a string, a number or a Uint8Array.
Napi::Value toKey(Napi::Env env, const std::string& bytes);

}  // namespace stripelock
