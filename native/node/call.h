// A call's arguments and results without the wrapper classes, for the calls that a contended acquisition, or an
// uncontended lease, consists of.

#pragma once

#include <napi.h>

#include <array>
#include <string>

#include "node/arguments.h"
#include "node/environment.h"

namespace stripelock {

// For functions that addFunction has added.
class Call {
 public:
  // `most`: arguments that it has; to read none that it has not costs less.
  Call(napi_env env, napi_callback_info info, std::size_t most = kMostArguments) : env_(env), count_(most) {
    void* data = nullptr;
    napi_get_cb_info(env, info, &count_, values_.data(), nullptr, &data);
    environment_ = static_cast<Environment*>(data);
  }

  napi_env env() const { return env_; }
  // Of the thread that calls; it has started.
  Environment& environment() const { return *environment_; }
  bool started() const { return environment_->started(); }

  napi_value at(std::size_t index) const { return values_[index]; }
  bool has(std::size_t index) const { return index < count_; }
  bool isNumber(std::size_t index) const { return typeOf(index) == napi_number; }
  bool toDouble(std::size_t index, double& out) const {
    return napi_get_value_double(env_, values_[index], &out) == napi_ok;
  }
  // An integer from 0 to `most`.
  bool toIndex(std::size_t index, std::uint32_t most, std::uint32_t& out) const {
    double number = 0;
    if (!toDouble(index, number) || !isIndex(number, most)) return false;
    out = static_cast<std::uint32_t>(number);
    return true;
  }
  bool toBoolean(std::size_t index, bool& out) const {
    return napi_get_value_bool(env_, values_[index], &out) == napi_ok;
  }
  bool toInts(std::size_t index, std::int32_t*& data, std::size_t& length) const {
    napi_typedarray_type type{};
    void* start = nullptr;
    if (napi_get_typedarray_info(env_, values_[index], &type, &length, &start, nullptr, nullptr) != napi_ok ||
        type != napi_int32_array) {
      return false;
    }
    data = static_cast<std::int32_t*>(start);
    return true;
  }
  // False where it is no string.
  bool toText(std::size_t index, std::string& out) const {
    if (!has(index) || typeOf(index) != napi_string) return false;
    out = Napi::String(env_, values_[index]).Utf8Value();
    return true;
  }
  // nullptr where it names no open table.
  Membership* toTable(std::size_t index) const {
    std::uint32_t number = 0;
    return started() && toIndex(index, kMostTables, number) ? environment_->membership(number) : nullptr;
  }

  napi_value number(std::int32_t value) const {
    napi_value result = nullptr;
    napi_create_int32(env_, value, &result);
    return result;
  }

 private:
  napi_valuetype typeOf(std::size_t index) const {
    napi_valuetype type = napi_undefined;
    napi_typeof(env_, values_[index], &type);
    return type;
  }

  static constexpr std::size_t kMostArguments = 7;

  napi_env env_;
  Environment* environment_ = nullptr;
  std::size_t count_;
  // Those that were not passed are undefined.
  std::array<napi_value, kMostArguments> values_{};
};

inline void addFunction(Napi::Env env, Napi::Object exports, const char* name, napi_callback function) {
  napi_value value = nullptr;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, function, &Environment::of(env), &value);
  exports.Set(name, value);
}

}  // namespace stripelock
