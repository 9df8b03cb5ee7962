// The arguments of the calls that leases are made of, read without the wrapper classes: these calls are most of what an
// uncontended lease costs.

#pragma once

#include <napi.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "node/environment.h"

namespace stripelock {

// What number() accepts: integers that a double holds exactly.
inline constexpr double kMaxNumber = 9007199254740991.0;
inline constexpr double kNanosecondsPerMillisecond = 1e6;
// Milliseconds, so that times and sums of two do not overflow: 2^42, 139 years. lib/ has a narrower limit.
inline constexpr double kMaxTime = 4398046511104.0;

// A string argument as the bytes of its UTF-16 code units: exact for every string, ill-formed ones included, and
// copied faster than UTF-8 is encoded.
class Text {
 public:
  // False where it is no string.
  bool read(napi_env env, napi_value value) {
    std::size_t length = 0;
    if (napi_get_value_string_utf16(env, value, few_.data(), few_.size(), &length) != napi_ok) return false;
    if (length + 1 < few_.size()) {
      view_ = {few_.data(), length};
      return true;
    }
    // It may have been cut off.
    napi_get_value_string_utf16(env, value, nullptr, 0, &length);
    many_.resize(length);
    napi_get_value_string_utf16(env, value, many_.data(), length + 1, &length);
    view_ = many_;
    return true;
  }
  std::string_view view() const {
    return {static_cast<const char*>(static_cast<const void*>(view_.data())),
            view_.size() * sizeof(char16_t)};
  }

 private:
  std::array<char16_t, 128> few_;
  std::u16string many_;
  std::u16string_view view_;
};

// The arguments of one call.
class Call {
 public:
  Call(napi_env env, napi_callback_info info) : env(env) {
    std::size_t count = values_.size();
    napi_get_cb_info(env, info, &count, values_.data(), nullptr, nullptr);
    const Environment& environment = Environment::of(env);
    if (environment.started()) leases = environment.leases();
  }

  bool number(std::size_t index, double least, double most, double& out) const {
    return napi_get_value_double(env, values_[index], &out) == napi_ok && out >= least && out <= most;
  }
  bool integer(std::size_t index, double least, double most, std::uint64_t& out) const {
    double value = 0;
    if (!number(index, least, most, value) || value != std::floor(value)) return false;
    out = static_cast<std::uint64_t>(value);
    return true;
  }
  bool boolean(std::size_t index, bool& out) const {
    return napi_get_value_bool(env, values_[index], &out) == napi_ok;
  }
  bool text(std::size_t index, Text& out) const { return out.read(env, values_[index]); }
  bool textOrUndefined(std::size_t index, Text& out) const {
    napi_valuetype type{};
    return (napi_typeof(env, values_[index], &type) == napi_ok && type == napi_undefined) || text(index, out);
  }
  bool token(std::size_t index, std::uint64_t& out) const {
    bool lossless = false;
    return napi_get_value_bigint_uint64(env, values_[index], &out, &lossless) == napi_ok && lossless;
  }
  // Milliseconds as nanoseconds, whole ones exactly.
  bool duration(std::size_t index, Nanoseconds& out) const {
    double milliseconds = 0;
    if (!number(index, 0, kMaxTime, milliseconds)) return false;
    out = toNanoseconds(milliseconds);
    return true;
  }
  // A time of the caller's clock, or NaN for the steady one.
  bool time(std::size_t index, Nanoseconds& out) const {
    double milliseconds = 0;
    if (napi_get_value_double(env, values_[index], &milliseconds) != napi_ok) return false;
    out = LeaseTable::kSteady;
    if (std::isnan(milliseconds)) return true;
    if (!(std::abs(milliseconds) <= kMaxTime)) return false;
    out = toNanoseconds(milliseconds);
    return true;
  }
  LeaseTable* table(std::size_t index) const {
    std::uint64_t place = 0;
    return leases && integer(index, 0, 1e9, place) ? leases->table(static_cast<std::uint32_t>(place))
                                                   : nullptr;
  }
  FencingGate* gate(std::size_t index) const {
    std::uint64_t place = 0;
    return leases && integer(index, 0, 1e9, place) ? leases->gate(static_cast<std::uint32_t>(place))
                                                   : nullptr;
  }
  napi_value at(std::size_t index) const { return values_[index]; }

  const napi_env env;
  Leases* leases = nullptr;

 private:
  static Nanoseconds toNanoseconds(double milliseconds) {
    const double whole = std::floor(milliseconds);
    return static_cast<Nanoseconds>(whole) * 1'000'000 +
           static_cast<Nanoseconds>((milliseconds - whole) * kNanosecondsPerMillisecond);
  }

  std::array<napi_value, 6> values_{};
};

}  // namespace stripelock
