// The addon: the functions that start a thread and open tables, and all other exports. lib/engine/native/addon.ts
// declares them for TypeScript; a test compares the names. Every function runs on its environment's thread.

#include <napi.h>

#include <array>
#include <optional>
#include <string>

#include "core/base/hash.h"
#include "core/base/narrow.h"
#include "core/base/platform.h"
#include "node/acquisitions.h"
#include "node/call.h"
#include "node/contention.h"
#include "node/environment.h"
#include "node/exact_keys.h"
#include "node/gates.h"
#include "node/inspection.h"
#include "node/leases.h"
#include "node/process_locks.h"
#include "node/signals.h"
#include "node/web_locks.h"

namespace stripelock {

namespace {

// The highest thread id.
constexpr std::uint32_t kMostThreads = 0x7fffffff;
// The largest offset in an arena.
constexpr std::uint32_t kMostBytes = 0x7fffffff;

// start(threadId, onReady): slot
napi_value start(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  Environment& environment = call.environment();
  std::uint32_t threadId = 0;
  if (!call.toIndex(0, kMostThreads, threadId) || !call.isFunction(1) || environment.started())
    return call.refuse("expected a thread id and a function, once");
  if (!environment.start(env, static_cast<std::int32_t>(threadId), {env, call.at(1)})) {
    Napi::Error::New(env, "too many threads use locks").ThrowAsJavaScriptException();
    return nullptr;
  }
  return call.unsignedInteger(environment.participant().slot());
}

// registryId(): [low, high]
napi_value registryId(napi_env env, napi_callback_info) {
  const std::uint64_t id = Registry::instance().id();
  return toArray(env, {static_cast<std::int32_t>(id), static_cast<std::int32_t>(id >> 32)});
}

// open(words, stripes, exact?, limit?, name?): the table's number, or kNotOpened if the memory is in use with another
// number of stripes, another limit, or another value of `exact`
napi_value open(napi_env env, napi_callback_info info) {
  const Call call(env, info, 5);
  Napi::Int32Array words;
  std::uint32_t stripes = 0;
  bool exact = false;
  std::uint32_t limit = 1;
  std::string name;
  if (!call.started() || !call.toSharedInts(0, words) || !call.toIndex(1, kMaxStripes, stripes) ||
      (call.has(2) && !call.toBoolean(2, exact)) ||
      (call.has(3) && (!call.toIndex(3, kMaxLimit, limit) || limit == 0)) ||
      (call.has(4) && !call.toText(4, name))) {
    return call.refuse(
        "expected a shared Int32Array, a number of stripes, whether it is exact, a limit and a name");
  }
  if (stripes == 0 || words.ByteLength() != byteLengthFor(stripes) ||
      words.ByteOffset() % (kStripeInts * sizeof(Word)) != 0) {
    return call.refuse("words must be the memory of a lock");
  }
  return call.integer(call.environment().open(words, stripes, exact, limit, name));
}

// close(table)
napi_value close(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  const Membership* const membership = call.toTable(0);
  if (!membership) return call.refuse("expected an open table");
  // If the thread is blocked, an interrupt of the blocked call makes this call. The blocked call may wait for a stripe
  // of this table.
  if (call.environment().blocked()) return call.refuse("no table can be closed by a blocked thread");
  call.environment().close(membership->number);
  return nullptr;
}

// reuse(arenaLow, arenaHigh, stripes): the offset, in bytes, of unused memory in the arena, or kNoRoom
napi_value reuse(napi_env env, napi_callback_info info) {
  const Call call(env, info, 3);
  std::uint64_t arena = 0;
  std::uint32_t stripes = 0;
  if (!call.started() || !call.toArena(0, arena) || !call.toIndex(2, kMaxStripes, stripes) || stripes == 0)
    return call.refuse("expected the number of an arena and a number of stripes");
  const std::optional<std::uint32_t> offset = Registry::instance().takeSpan(
      call.environment().participant(), arena, static_cast<std::uint32_t>(byteLengthFor(stripes)));
  return call.number(offset ? static_cast<double>(*offset) : double{kNoRoom});
}

// own(table, arenaLow, arenaHigh, offset): see Registry::own
napi_value own(napi_env env, napi_callback_info info) {
  const Call call(env, info, 4);
  Membership* const membership = call.toTable(0);
  Span span;
  if (!membership || !call.toArena(1, span.arena) || !call.toIndex(3, kMostBytes, span.offset))
    return call.refuse("expected an open table and its place in an arena");
  span.bytes = static_cast<std::uint32_t>(byteLengthFor(membership->table().stripes()));
  Registry::instance().own(*membership, span);
  return nullptr;
}

// share(table): see Registry::share
napi_value share(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  Membership* const membership = call.toTable(0);
  if (!membership) return call.refuse("expected an open table");
  Registry::instance().share(*membership);
  return nullptr;
}

// sameMemory(words, words): true if both start at the same address
napi_value sameMemory(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  std::int32_t* one = nullptr;
  std::int32_t* other = nullptr;
  std::size_t length = 0;
  if (!call.toInts(0, one, length) || !call.toInts(1, other, length))
    return call.refuse("expected two Int32Arrays");
  return call.boolean(one == other);
}

// openShares(table, counts): the array of counts in use; see Environment::openShares
napi_value openShares(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  const Membership* const membership = call.toTable(0);
  Napi::Int32Array counts;
  if (!membership || !call.toSharedInts(1, counts) ||
      counts.ElementLength() != shareIntsFor(membership->table().stripes())) {
    return call.refuse("expected an open table and a shared Int32Array with two counts for each stripe");
  }
  return call.environment().openShares(membership->number, counts);
}

// openLocals(table, counts): the array of counts in use; see Environment::openLocals
napi_value openLocals(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  const Membership* const membership = call.toTable(0);
  Napi::Int32Array counts;
  if (!membership || !call.toSharedInts(1, counts) ||
      counts.ElementLength() != localIntsFor(membership->table().stripes())) {
    return call.refuse("expected an open table and a shared Int32Array of the right size");
  }
  return call.environment().openLocals(membership->number, counts);
}

// hash(key, stripes): the stripe. Called once for each key that is not cached.
napi_value hash(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  std::uint32_t stripes = 0;
  if (!call.toIndex(1, kMaxStripes, stripes) || stripes == 0)
    return call.refuse("expected a key and a number of stripes");
  std::array<char, 1024> few;
  std::size_t length = 0;
  // V8 copies a string twice as fast as it encodes the string.
  std::array<char16_t, 256> units;
  const bool isText =
      napi_get_value_string_utf16(env, call.at(0), units.data(), units.size(), &length) == napi_ok;
  // If there is room for one more unit, the string was not truncated. ASCII is valid UTF-8.
  if (isText && length + 1 < units.size() && narrow({units.data(), length}, few.data()) < 0x80)
    return call.unsignedInteger(stripeOfBytes(few.data(), length, stripes));
  if (!isText) {
    napi_typedarray_type type{};
    void* data = nullptr;
    if (napi_get_typedarray_info(env, call.at(0), &type, &length, &data, nullptr, nullptr) != napi_ok ||
        type != napi_uint8_array) {
      return call.refuse("key must be a string or a Uint8Array");
    }
    return call.unsignedInteger(stripeOfBytes(data, length, stripes));
  }
  napi_get_value_string_utf8(env, call.at(0), few.data(), few.size(), &length);
  // One character takes at most 4 bytes. If that much room is left, the string was not truncated.
  if (length + 4 < few.size()) return call.unsignedInteger(stripeOfBytes(few.data(), length, stripes));
  napi_get_value_string_utf8(env, call.at(0), nullptr, 0, &length);
  std::string many(length, '\0');
  // std::string also has room for the terminator.
  napi_get_value_string_utf8(env, call.at(0), many.data(), length + 1, &length);
  return call.unsignedInteger(stripeOfBytes(many.data(), length, stripes));
}

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  pinModule();
  env.SetInstanceData(new Environment());
  addFunction(env, exports, "start", start);
  addFunction(env, exports, "registryId", registryId);
  addFunction(env, exports, "open", open);
  addFunction(env, exports, "close", close);
  addFunction(env, exports, "reuse", reuse);
  addFunction(env, exports, "own", own);
  addFunction(env, exports, "share", share);
  addFunction(env, exports, "sameMemory", sameMemory);
  addFunction(env, exports, "openShares", openShares);
  addFunction(env, exports, "openLocals", openLocals);
  addFunction(env, exports, "hash", hash);
  addAcquisitions(env, exports);
  addInspection(env, exports);
  addExactKeys(env, exports);
  addLeases(env, exports);
  addGates(env, exports);
  addContention(env, exports);
  addWebLocks(env, exports);
  addProcessLocks(env, exports);
  addSignals(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(stripelock, initialize)

}  // namespace stripelock
