#include "node/names.h"

#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "core/inspect.h"
#include "node/call.h"

namespace stripelock {

namespace {

// The first two bytes of a key say what it is. So a number, its digits and its bytes are different keys.
constexpr char16_t kString = 0;
constexpr char16_t kNumber = 1;
constexpr char16_t kBytes = 2;

// Integers up to this are exact, and so keys.
constexpr double kMaxSafe = 9007199254740991.0;

// The bytes that stand for a key: its kind, and after it the UTF-16 code units of a string (exact for every string, even
// an ill-formed one), the double of a number, or the bytes themselves.
class NamedKey {
 public:
  // False if it is not a key.
  bool read(napi_env env, napi_value value) { return readString(env, value) || readOther(env, value); }
  KeyView view() const { return KeyView(text_); }

 private:
  bool readString(napi_env env, napi_value value) {
    std::size_t length = 0;
    const std::size_t room = few_.size() - 1;
    few_[0] = kString;
    if (napi_get_value_string_utf16(env, value, few_.data() + 1, room, &length) != napi_ok) return false;
    if (length + 1 < room) {
      setText(few_.data(), length + 1);
      return true;
    }
    // The text may have been cut off.
    napi_get_value_string_utf16(env, value, nullptr, 0, &length);
    many_.assign(length + 1, kString);
    napi_get_value_string_utf16(env, value, many_.data() + 1, length + 1, &length);
    setText(many_.data(), length + 1);
    return true;
  }

  bool readOther(napi_env env, napi_value value) {
    double number = 0;
    napi_typedarray_type type{};
    void* data = nullptr;
    std::size_t length = 0;
    if (napi_get_value_double(env, value, &number) == napi_ok) {
      if (!(std::abs(number) <= kMaxSafe) || number != std::floor(number)) return false;
      // Also for -0, which is the same key as 0.
      number += 0.0;
      data = &number;
      length = sizeof number;
      few_[0] = kNumber;
    } else if (napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr) == napi_ok &&
               type == napi_uint8_array) {
      few_[0] = kBytes;
    } else {
      return false;
    }
    bytes_.resize(sizeof(char16_t) + length);
    std::memcpy(bytes_.data(), few_.data(), sizeof(char16_t));
    // Without bytes there may be no address either.
    if (length > 0) std::memcpy(bytes_.data() + sizeof(char16_t), data, length);
    text_ = bytes_;
    return true;
  }

  void setText(const char16_t* units, std::size_t count) {
    text_ = {static_cast<const char*>(static_cast<const void*>(units)), count * sizeof(char16_t)};
  }

  std::array<char16_t, 128> few_;
  std::u16string many_;
  std::string bytes_;
  std::string_view text_;
};

// nullptr if it is not the number of an open, exact table.
Membership* toExactTable(const Call& call) {
  Membership* const membership = call.toTable(0);
  return membership && membership->table().names() ? membership : nullptr;
}

// pin(table, key): its stripe, with kPinnedAgain and kCrowded; or kNoStripe
napi_value pin(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  Membership* const membership = toExactTable(call);
  NamedKey key;
  if (!membership || !key.read(env, call.at(1))) return call.refuse("expected an exact table and a key");
  const Membership::Pinned pinned = membership->pin(key.view());
  if (pinned.stripe == NameTable::kNone) return call.integer(kNoStripe);
  const std::int32_t again = pinned.again ? kPinnedAgain : 0;
  const std::int32_t crowded = pinned.crowded ? kCrowded : 0;
  return call.integer(static_cast<std::int32_t>(pinned.stripe) | again | crowded);
}

// unpin(table, stripes, count): how many of the first `count` stripes are in use, and stay pinned. These are at the front
// then.
napi_value unpin(napi_env env, napi_callback_info info) {
  const Call call(env, info, 3);
  Membership* const membership = toExactTable(call);
  std::int32_t* stripes = nullptr;
  std::size_t length = 0;
  std::uint32_t count = 0;
  if (!membership || !call.toInts(1, stripes, length) ||
      !call.toIndex(2, static_cast<std::uint32_t>(length), count)) {
    return call.refuse("expected an exact table, stripes and how many");
  }
  // Keeps N4: an interrupt of a blocked call makes this call, and the blocked call may wait for any of them.
  if (call.environment().blocked()) return call.unsignedInteger(count);
  return call.unsignedInteger(static_cast<std::uint32_t>(membership->unpin(stripes, count)));
}

// inUse(table): how many of its keys are held, or were abandoned
napi_value inUse(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  Membership* const membership = toExactTable(call);
  if (!membership) return call.refuse("expected an exact table");
  return call.unsignedInteger(countInUse(membership->table()));
}

}  // namespace

Napi::Value toKey(Napi::Env env, const std::string& bytes) {
  char16_t kind = kString;
  std::memcpy(&kind, bytes.data(), sizeof kind);
  const char* const start = bytes.data() + sizeof kind;
  const std::size_t length = bytes.size() - sizeof kind;
  if (kind == kNumber) {
    double number = 0;
    std::memcpy(&number, start, sizeof number);
    return Napi::Number::New(env, number);
  }
  if (kind == kBytes) {
    Napi::Uint8Array array = Napi::Uint8Array::New(env, length);
    if (length > 0) std::memcpy(array.Data(), start, length);
    return array;
  }
  std::u16string units(length / sizeof(char16_t), u'\0');
  if (length > 0) std::memcpy(units.data(), start, length);
  return Napi::String::New(env, units);
}

void addNames(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "pin", pin);
  addFunction(env, exports, "unpin", unpin);
  addFunction(env, exports, "inUse", inUse);
}

}  // namespace stripelock
