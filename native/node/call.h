// One call from JavaScript: its checked arguments, and its result. All exported functions use it. lib/ has already
// checked the user's arguments; these checks keep a wrong call from crashing.
//
// Contended acquisitions and uncontended leases call Node-API directly, because the wrapper classes would cost them
// more than the rest of the call.

#pragma once

#include <napi.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "core/table/mode.h"
#include "node/environment.h"
#include "node/protocol.h"

namespace stripelock {

// Whether the core may keep the address of an array's memory. The memory of an ArrayBuffer is lost when the buffer is
// detached. The memory of a SharedArrayBuffer, growable or not, stays as long as a reference to the buffer exists.
bool isInSharedMemory(napi_env env, napi_value array);

Napi::Array toArray(Napi::Env env, const std::vector<std::int32_t>& numbers);

inline constexpr double kNanosecondsPerMillisecond = 1e6;

inline double toMilliseconds(Nanoseconds time) {
  return static_cast<double>(time) / kNanosecondsPerMillisecond;
}

// For functions added with addFunction. The members whose names begin with "to" read an argument; they return false, or
// nullptr, if the argument has the wrong type or value.
class Call {
 public:
  // `most`: the number of arguments of the function. Reading more values would only take longer.
  Call(napi_env env, napi_callback_info info, std::size_t most = kMostArguments) : env_(env), count_(most) {
    void* data = nullptr;
    napi_get_cb_info(env, info, &count_, values_.data(), nullptr, &data);
    environment_ = static_cast<Environment*>(data);
  }

  napi_env env() const { return env_; }
  // The calling thread's environment. It has a participant and leases once it has started.
  Environment& environment() const { return *environment_; }
  bool started() const { return environment_->started(); }

  // ── arguments ──

  napi_value at(std::size_t index) const { return values_[index]; }
  bool has(std::size_t index) const { return index < count_; }
  bool isNumber(std::size_t index) const { return typeOf(index) == napi_number; }
  bool isFunction(std::size_t index) const { return typeOf(index) == napi_function; }
  bool toDouble(std::size_t index, double& out) const {
    return napi_get_value_double(env_, values_[index], &out) == napi_ok;
  }
  // An integer from 0 to `most`.
  bool toIndex(std::size_t index, std::uint32_t most, std::uint32_t& out) const {
    double number = 0;
    // Also false for NaN.
    if (!toDouble(index, number) || !(number >= 0 && number <= most)) return false;
    out = static_cast<std::uint32_t>(number);
    return number == static_cast<double>(out);
  }
  // The id of an object in the core. The core checks whether the object exists.
  bool toId(std::size_t index, std::uint32_t& out) const {
    return toIndex(index, std::numeric_limits<std::uint32_t>::max(), out);
  }
  // The number of an arena, as two integers of 32 bits.
  bool toArena(std::size_t index, std::uint64_t& out) const {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    if (!toIndex(index, 0xffffffff, low) || !toIndex(index + 1, 0xffffffff, high)) return false;
    out = (std::uint64_t{high} << 32) | low;
    return true;
  }
  bool toBoolean(std::size_t index, bool& out) const {
    return napi_get_value_bool(env_, values_[index], &out) == napi_ok;
  }
  // The number of a mode. Only this function and the next one read modes.
  bool toMode(std::size_t index, Mode& out) const {
    std::uint32_t number = 0;
    if (!toIndex(index, kModes - 1, number)) return false;
    out = static_cast<Mode>(number);
    return true;
  }
  // A mode in which stripes of this table can be held. JavaScript has a separate mode for permits, which the core
  // counts as shared holds (P1). A table with permits has only that mode, and other tables do not have it.
  bool toMode(std::size_t index, const Table& table, Mode& out) const {
    if (!hasPermits(table.limit())) return toMode(index, out);
    std::uint32_t number = 0;
    out = kCountedMode;
    return toIndex(index, kPermitMode, number) && number == kPermitMode;
  }
  // An Int32Array. `data` is valid until JavaScript runs again.
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
  // An Int32Array whose address the core may keep.
  bool toSharedInts(std::size_t index, Napi::Int32Array& out) const {
    std::int32_t* data = nullptr;
    std::size_t length = 0;
    if (!toInts(index, data, length) || !isInSharedMemory(env_, values_[index])) return false;
    out = {env_, values_[index]};
    return true;
  }
  // A Float64Array whose address the core may keep.
  bool toSharedDoubles(std::size_t index, Napi::Float64Array& out) const {
    napi_typedarray_type type{};
    if (napi_get_typedarray_info(env_, values_[index], &type, nullptr, nullptr, nullptr, nullptr) !=
            napi_ok ||
        type != napi_float64_array || !isInSharedMemory(env_, values_[index])) {
      return false;
    }
    out = {env_, values_[index]};
    return true;
  }
  // A string, as UTF-8.
  bool toText(std::size_t index, std::string& out) const {
    if (!has(index) || typeOf(index) != napi_string) return false;
    out = Napi::String(env_, values_[index]).Utf8Value();
    return true;
  }
  // The number of an open table.
  Membership* toTable(std::size_t index) const {
    std::uint32_t number = 0;
    return started() && toIndex(index, kMostTables, number) ? environment_->membership(number) : nullptr;
  }

  // ── results ──

  napi_value integer(std::int32_t value) const {
    napi_value result = nullptr;
    napi_create_int32(env_, value, &result);
    return result;
  }
  napi_value unsignedInteger(std::uint32_t value) const {
    napi_value result = nullptr;
    napi_create_uint32(env_, value, &result);
    return result;
  }
  napi_value number(double value) const {
    napi_value result = nullptr;
    napi_create_double(env_, value, &result);
    return result;
  }
  napi_value boolean(bool value) const {
    napi_value result = nullptr;
    napi_get_boolean(env_, value, &result);
    return result;
  }
  // The result of a call that handed over `count` entries and had room for `room`.
  napi_value batch(std::size_t count, std::size_t room) const {
    return integer(static_cast<std::int32_t>(count) | (count == room ? kMore : 0));
  }
  // Throws a JavaScript TypeError with code ERR_INVALID_ARG_TYPE. Returns nullptr, for the caller to return.
  napi_value refuse(const char* message) const;

 private:
  napi_valuetype typeOf(std::size_t index) const {
    napi_valuetype type = napi_undefined;
    napi_typeof(env_, values_[index], &type);
    return type;
  }

  static constexpr std::size_t kMostArguments = 9;

  napi_env env_;
  Environment* environment_ = nullptr;
  std::size_t count_;
  // JavaScript's undefined for arguments that were not passed.
  std::array<napi_value, kMostArguments> values_{};
};

// Adds a function to the addon's exports.
void addFunction(Napi::Env env, Napi::Object exports, const char* name, napi_callback function);

}  // namespace stripelock
