// The exact keys of a table: which stripe each of them has.

#pragma once

#include <napi.h>

#include <string>

namespace stripelock {

void addExactKeys(Napi::Env env, Napi::Object exports);

// The bytes that stand for a key. Equal keys have equal bytes, in all processes, and others have not. False if it is not a
// key.
bool readKey(napi_env env, napi_value value, std::string& bytes);

// The key that was pinned as these bytes: a string, a number or a Uint8Array.
Napi::Value toKey(Napi::Env env, const std::string& bytes);

}  // namespace stripelock
