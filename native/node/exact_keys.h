// Maps exact keys of a table to their stripes.

#pragma once

#include <napi.h>

#include <string>

namespace stripelock {

void addExactKeys(Napi::Env env, Napi::Object exports);

// Converts a key to bytes. Equal keys have equal bytes in all processes, and unequal keys have different ones. Returns
// false if the value is not a key.
bool readKey(napi_env env, napi_value value, std::string& bytes);

// Converts these bytes back to the key: a string, a number or a Uint8Array.
Napi::Value toKey(Napi::Env env, const std::string& bytes);

}  // namespace stripelock
