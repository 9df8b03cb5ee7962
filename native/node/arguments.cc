#include "node/arguments.h"

namespace stripelock {

Napi::Value invalidArgument(Napi::Env env, const char* message) {
  Napi::TypeError error = Napi::TypeError::New(env, message);
  error.Set("code", Napi::String::New(env, "ERR_INVALID_ARG_TYPE"));
  error.ThrowAsJavaScriptException();
  return env.Undefined();
}

bool isInt32Array(Napi::Value value) {
  return value.IsTypedArray() && value.As<Napi::TypedArray>().TypedArrayType() == napi_int32_array;
}

bool isShared(Napi::TypedArray array) {
  const Napi::Env env = array.Env();
  napi_value buffer = nullptr;
  bool unshared = true;
  return napi_get_typedarray_info(env, array, nullptr, nullptr, nullptr, &buffer, nullptr) == napi_ok &&
         napi_is_arraybuffer(env, buffer, &unshared) == napi_ok && !unshared;
}

bool isBoolean(Napi::Value value) { return value.IsBoolean(); }

bool isIndex(Napi::Value value, std::uint32_t most) {
  return value.IsNumber() && isIndex(value.As<Napi::Number>().DoubleValue(), most);
}

Napi::Array toArray(Napi::Env env, const std::vector<std::int32_t>& numbers) {
  Napi::Array array = Napi::Array::New(env, numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    array.Set(static_cast<std::uint32_t>(i), Napi::Number::New(env, numbers[i]));
  }
  return array;
}

Membership* tableArgument(const Napi::CallbackInfo& info, std::size_t index) {
  const Environment& environment = Environment::of(info.Env());
  if (environment.started() && isIndex(info[index], kMostTables)) {
    Membership* const membership = environment.membership(info[index].As<Napi::Number>().Uint32Value());
    if (membership) return membership;
  }
  invalidArgument(info.Env(), "table must be the number of an open table");
  return nullptr;
}

}  // namespace stripelock
