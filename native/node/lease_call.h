// The arguments of the calls for leases and gates.

#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "node/call.h"

namespace stripelock {

// The largest number in an argument. A double represents all integers up to this one exactly.
inline constexpr double kMaxNumber = 9007199254740991.0;
// Times are at most 2^42 ms, or 139 years, so the sum of two does not overflow. lib/ has a narrower limit.
inline constexpr double kMaxTime = 4398046511104.0;

// A string argument as the bytes of its UTF-16 code units. These bytes are exact for every string, even an ill-formed
// one. V8 copies them faster than it encodes UTF-8.
class Text {
 public:
  // Returns false if the value is not a string.
  bool read(napi_env env, napi_value value) {
    std::size_t length = 0;
    if (napi_get_value_string_utf16(env, value, nullptr, 0, &length) != napi_ok) return false;
    units_.resize(length);
    return napi_get_value_string_utf16(env, value, units_.data(), length + 1, &length) == napi_ok;
  }
  std::string_view view() const {
    return {static_cast<const char*>(static_cast<const void*>(units_.data())),
            units_.size() * sizeof(char16_t)};
  }

 private:
  std::u16string units_;
};

// Converts milliseconds to nanoseconds. Exact for whole milliseconds.
inline Nanoseconds toNanoseconds(double milliseconds) {
  const auto whole = static_cast<Nanoseconds>(milliseconds);
  const double rest = milliseconds - static_cast<double>(whole);
  return whole * 1'000'000 + static_cast<Nanoseconds>(rest * kNanosecondsPerMillisecond);
}

class LeaseCall : public Call {
 public:
  using Call::Call;

  // The calling thread's leases. The thread must have started.
  Leases& leases() const { return *environment().leases(); }

  bool toNumber(std::size_t index, double least, double most, std::uint64_t& out) const {
    double value = 0;
    if (!toDouble(index, value) || !(value >= least && value <= most) || value != std::floor(value))
      return false;
    out = static_cast<std::uint64_t>(value);
    return true;
  }
  bool toKey(std::size_t index, Text& out) const { return out.read(env(), at(index)); }
  bool toToken(std::size_t index, std::uint64_t& out) const {
    bool lossless = false;
    return napi_get_value_bigint_uint64(env(), at(index), &out, &lossless) == napi_ok && lossless;
  }
  // A TTL in milliseconds.
  bool toTtl(std::size_t index, Nanoseconds& out) const {
    double ttl = -1;
    if (!toDouble(index, ttl) || !(ttl >= 0 && ttl <= kMaxTime)) return false;
    out = toNanoseconds(ttl);
    return true;
  }
  // Returns nullptr if the argument is not the number of an open table.
  LeaseTable* toLeaseTable(std::size_t index) const {
    std::uint32_t place = 0;
    return started() && toIndex(index, kMaxOpen, place) ? leases().table(place) : nullptr;
  }
  FencingGate* toGate(std::size_t index) const {
    std::uint32_t place = 0;
    return started() && toIndex(index, kMaxOpen, place) ? leases().gate(place) : nullptr;
  }

 private:
  static constexpr std::uint32_t kMaxOpen = 1'000'000'000;
};

// Converts a time of the caller's clock, or NaN for the table's clock. Returns false for any other number.
inline bool toTime(double milliseconds, Nanoseconds& out) {
  out = LeaseTable::kElapsed;
  if (std::isnan(milliseconds)) return true;
  if (!(std::abs(milliseconds) <= kMaxTime)) return false;
  out = toNanoseconds(milliseconds);
  return true;
}

// The first arguments of most calls: (table, key, at, owner?). `at`: milliseconds, or NaN for the table's clock.
class LeaseArguments {
 public:
  explicit LeaseArguments(const LeaseCall& call) : call_(call), table_(call.toLeaseTable(0)) {
    double at = 0;
    valid_ = table_ && call.toKey(1, key_) && call.toDouble(2, at) && toTime(at, at_) &&
             (!call.has(3) || call.toKey(3, owner_));
  }

  explicit operator bool() const { return valid_; }
  LeaseTable& table() const { return *table_; }
  KeyView key() const { return KeyView(key_.view()); }
  Nanoseconds at() const { return at_; }
  LeaseTable::Claim claim() const { return {.key = key(), .owner = owner_.view(), .at = at_}; }
  napi_value refuse() const {
    return call_.refuse("expected an open table, a key, times, an owner and a text or token");
  }

 private:
  const LeaseCall& call_;
  LeaseTable* const table_;
  bool valid_;
  Nanoseconds at_ = 0;
  Text key_;
  Text owner_;
};

}  // namespace stripelock
