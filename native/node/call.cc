#include "node/call.h"

namespace stripelock {

napi_value Call::refuse(const char* message) const {
  Napi::TypeError error = Napi::TypeError::New(env_, message);
  error.Set("code", Napi::String::New(env_, "ERR_INVALID_ARG_TYPE"));
  error.ThrowAsJavaScriptException();
  return nullptr;
}

bool isInSharedMemory(napi_env env, napi_value array) {
  napi_value buffer = nullptr;
  bool unshared = true;
  return napi_get_typedarray_info(env, array, nullptr, nullptr, nullptr, &buffer, nullptr) == napi_ok &&
         napi_is_arraybuffer(env, buffer, &unshared) == napi_ok && !unshared;
}

Napi::Array toArray(Napi::Env env, const std::vector<std::int32_t>& numbers) {
  Napi::Array array = Napi::Array::New(env, numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    array.Set(static_cast<std::uint32_t>(i), Napi::Number::New(env, numbers[i]));
  }
  return array;
}

void addFunction(Napi::Env env, Napi::Object exports, const char* name, napi_callback function) {
  napi_value value = nullptr;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, function, &Environment::of(env), &value);
  exports.Set(name, value);
}

}  // namespace stripelock
