#include "node/exact_keys.h"

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "core/base/narrow.h"
#include "core/table/inspect.h"
#include "core/table/layout.h"
#include "node/call.h"

namespace stripelock {

namespace {

// The first byte of a key is its kind. So a number, the string of its digits and an array with the same bytes are three
// different keys.
enum class Kind : char {
  // The lower half of each UTF-16 code unit, if the upper halves are 0; see core/base/narrow.h.
  kNarrow,
  // The UTF-16 code units, so that every string is exact, even an ill-formed one.
  kWide,
  // A double.
  kNumber,
  // The bytes themselves.
  kBytes,
};

// The largest integer that is a key. A double represents all integers up to this one exactly.
constexpr double kMaxSafe = 9007199254740991.0;

// The bytes of a key: its kind, then its content. Two keys have the same bytes if and only if they are equal.
class KeyBytes {
 public:
  // Returns false if the value is not a key.
  bool read(napi_env env, napi_value value) { return readString(env, value) || readOther(env, value); }
  KeyView view() const { return KeyView(bytes_); }
  std::string_view bytes() const { return bytes_; }

 private:
  bool readString(napi_env env, napi_value value) {
    std::size_t length = 0;
    std::array<char16_t, 130> units;
    if (napi_get_value_string_utf16(env, value, units.data(), units.size(), &length) != napi_ok) return false;
    // If room for one more unit is left, the string was not truncated.
    if (length + 1 < units.size()) {
      setText({units.data(), length});
      return true;
    }
    napi_get_value_string_utf16(env, value, nullptr, 0, &length);
    std::u16string all(length + 1, u'\0');
    napi_get_value_string_utf16(env, value, all.data(), length + 1, &length);
    setText({all.data(), length});
    return true;
  }

  bool readOther(napi_env env, napi_value value) {
    double number = 0;
    napi_typedarray_type type{};
    void* data = nullptr;
    std::size_t length = 0;
    if (napi_get_value_double(env, value, &number) == napi_ok) {
      if (!(std::abs(number) <= kMaxSafe) || number != std::floor(number)) return false;
      // Turns -0 into 0, which is the same key.
      number += 0.0;
      set(Kind::kNumber, &number, sizeof number);
      return true;
    }
    if (napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr) != napi_ok ||
        type != napi_uint8_array) {
      return false;
    }
    set(Kind::kBytes, data, length);
    return true;
  }

  void setText(std::u16string_view text) {
    char* const out = reserve(text.size());
    if (narrow(text, out) < 0x100)
      end(Kind::kNarrow, text.size());
    else
      set(Kind::kWide, text.data(), text.size() * sizeof(char16_t));
  }
  void set(Kind kind, const void* data, std::size_t length) {
    char* const out = reserve(length);
    // An empty array may have a null address.
    if (length > 0) std::memcpy(out, data, length);
    end(kind, length);
  }
  // Reserves room for the kind and this many bytes. Returns the address after the kind.
  char* reserve(std::size_t length) {
    start_ = few_.data();
    if (length >= few_.size()) {
      many_.resize(1 + length);
      start_ = many_.data();
    }
    return start_ + 1;
  }
  void end(Kind kind, std::size_t length) {
    start_[0] = static_cast<char>(kind);
    bytes_ = {start_, 1 + length};
  }

  // Not initialized, because clearing it would cost more than the rest of the call.
  std::array<char, 264> few_;
  std::string many_;
  char* start_;
  std::string_view bytes_;
};

static_assert(kNoStripe == kIdleEnded - 1 && static_cast<std::uint32_t>(kNoStripe) >= kMaxStripes);

// Returns nullptr if the first argument is not the number of an open, exact table.
KeyPins* toPins(const Call& call) {
  Membership* const membership = call.toTable(0);
  return membership ? membership->pins() : nullptr;
}

// pin(table, key, idle): the key's stripe, or kNoStripe; plus the flags kPinnedAgain, kCrowded and kIdleEnded. `idle`:
// a stripe to unpin if this thread does not use it; or kNoStripe
napi_value pin(napi_env env, napi_callback_info info) {
  const Call call(env, info, 3);
  KeyPins* const pins = toPins(call);
  KeyBytes key;
  std::int32_t idle = kNoStripe;
  if (!pins || !key.read(env, call.at(1)) || napi_get_value_int32(env, call.at(2), &idle) != napi_ok)
    return call.refuse("expected an exact table, a key and a stripe");
  // Preserves N4: as in unpin().
  const bool blocked = call.environment().blocked();
  // kNoStripe is not the number of a stripe, so pin() then unpins nothing.
  const KeyPins::Pinned pinned = pins->pin(key.view(), static_cast<std::uint32_t>(idle), blocked);
  const std::int32_t stripe =
      pinned.stripe == KeyTable::kNone ? kNoStripe : static_cast<std::int32_t>(pinned.stripe);
  const std::int32_t again = pinned.again ? kPinnedAgain : 0;
  const std::int32_t crowded = pinned.crowded ? kCrowded : 0;
  const std::int32_t ended = pinned.ended ? kIdleEnded : 0;
  return call.integer(stripe | again | crowded | ended);
}

// unpin(table, stripes, count): unpins the first `count` stripes, except those in use. Moves the kept stripes to the
// front, and returns their number
napi_value unpin(napi_env env, napi_callback_info info) {
  const Call call(env, info, 3);
  KeyPins* const pins = toPins(call);
  std::int32_t* stripes = nullptr;
  std::size_t length = 0;
  std::uint32_t count = 0;
  if (!pins || !call.toInts(1, stripes, length) ||
      !call.toIndex(2, static_cast<std::uint32_t>(length), count)) {
    return call.refuse("expected an exact table, stripes and how many");
  }
  // Preserves N4: this call may come from an interrupt of a blocked call, which may wait for any of these keys.
  const bool blocked = call.environment().blocked();
  return call.unsignedInteger(static_cast<std::uint32_t>(pins->unpin(stripes, count, blocked)));
}

// inUse(table): the number of keys of the table that are held or abandoned
napi_value inUse(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  Membership* const membership = call.toTable(0);
  if (!membership || !membership->pins()) return call.refuse("expected an exact table");
  return call.unsignedInteger(countInUse(membership->table()));
}

}  // namespace

bool readKey(napi_env env, napi_value value, std::string& bytes) {
  KeyBytes key;
  if (!key.read(env, value)) return false;
  bytes = key.bytes();
  return true;
}

Napi::Value toKey(Napi::Env env, const std::string& bytes) {
  const auto kind = static_cast<Kind>(bytes[0]);
  const std::string_view rest = std::string_view(bytes).substr(1);
  if (kind == Kind::kNumber) {
    double number = 0;
    std::memcpy(&number, rest.data(), sizeof number);
    return Napi::Number::New(env, number);
  }
  if (kind == Kind::kBytes) {
    Napi::Uint8Array array = Napi::Uint8Array::New(env, rest.size());
    if (!rest.empty()) std::memcpy(array.Data(), rest.data(), rest.size());
    return array;
  }
  if (kind == Kind::kNarrow) return Napi::String::New(env, widen(rest));
  std::u16string units(rest.size() / sizeof(char16_t), u'\0');
  std::memcpy(units.data(), rest.data(), rest.size());
  return Napi::String::New(env, units);
}

void addExactKeys(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "pin", pin);
  addFunction(env, exports, "unpin", unpin);
  addFunction(env, exports, "inUse", inUse);
}

}  // namespace stripelock
