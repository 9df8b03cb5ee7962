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

bool isBoolean(Napi::Value value) { return value.IsBoolean(); }

bool isIndex(Napi::Value value, std::uint32_t most) {
  if (!value.IsNumber()) return false;
  const double number = value.As<Napi::Number>().DoubleValue();
  // False for NaN too.
  return number >= 0 && number <= most && number == static_cast<double>(static_cast<std::uint32_t>(number));
}

Membership* tableArgument(const Napi::CallbackInfo& info, std::size_t index) {
  const Environment& environment = Environment::of(info.Env());
  if (environment.started() && isIndex(info[index], kMaxStripes)) {
    Membership* const membership = environment.membership(info[index].As<Napi::Number>().Uint32Value());
    if (membership) return membership;
  }
  invalidArgument(info.Env(), "table must be the number of an open table");
  return nullptr;
}

bool acquireArguments(const Napi::CallbackInfo& info, AcquireArguments& arguments) {
  arguments.membership = tableArgument(info, 0);
  if (!arguments.membership) return false;
  if (!isInt32Array(info[1]) || !isIndex(info[2], kMaxStripes) || !isBoolean(info[3]) ||
      !info[4].IsNumber()) {
    invalidArgument(info.Env(),
                    "expected a table, an Int32Array of stripes, a count, a boolean and a number");
    return false;
  }
  const auto stripes = info[1].As<Napi::Int32Array>();
  Request& request = arguments.request;
  request.stripes = static_cast<const std::uint32_t*>(static_cast<const void*>(stripes.Data()));
  request.count = static_cast<std::uint32_t>(stripes.ElementLength());
  request.taken = info[2].As<Napi::Number>().Uint32Value();
  request.shared = info[3].As<Napi::Boolean>();
  request.timeout = info[4].As<Napi::Number>().DoubleValue();
  if (info[5].IsString()) {
    arguments.note = info[5].As<Napi::String>().Utf8Value();
    request.note = &arguments.note;
  }
  // The core relies on the order, and indexes by the values.
  bool valid = request.count > 0 && request.taken <= request.count && request.count <= kMaxStripes &&
               request.stripes[request.count - 1] < arguments.membership->table().stripes() &&
               (!request.shared || arguments.membership->hasShares());
  for (std::uint32_t i = 1; valid && i < request.count; ++i)
    valid = request.stripes[i - 1] < request.stripes[i];
  if (!valid) invalidArgument(info.Env(), "stripes must ascend, without duplicates, below the table's count");
  return valid;
}

}  // namespace stripelock
