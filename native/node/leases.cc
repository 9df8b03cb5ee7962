#include "node/leases.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "core/base/platform.h"
#include "node/lease_call.h"

namespace stripelock {

Leases::~Leases() {
  for (std::uint32_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i].object) closeTable(i);
  }
  for (std::uint32_t i = 0; i < gates_.size(); ++i) {
    if (gates_[i].object) closeGate(i);
  }
}

template <typename Object>
std::int32_t Leases::place(std::vector<Open<Object>>& list, Object* object, std::uint64_t number) {
  if (!object) return kNotOpened;
  std::size_t unused = 0;
  while (unused < list.size() && list[unused].object) ++unused;
  if (unused == list.size()) list.emplace_back();
  list[unused] = {object, number};
  return static_cast<std::int32_t>(unused);
}

std::int32_t Leases::openTable(std::uint64_t number, bool ownClock) {
  return place(tables_, LeaseRegistry::instance().openTable(number, ownClock), number);
}

std::int32_t Leases::openGate(std::uint64_t number, std::uint32_t capacity) {
  return place(gates_, LeaseRegistry::instance().openGate(number, capacity), number);
}

void Leases::closeTable(std::uint32_t index) {
  const Open<LeaseTable> closed = tables_[index];
  tables_[index] = {};
  // The environment may have the same table open twice, until the garbage collector finds the first handle.
  const bool last = std::none_of(tables_.begin(), tables_.end(),
                                 [&](const auto& open) { return open.object == closed.object; });
  if (last) watches.removeAll(*closed.object);
  LeaseRegistry::instance().closeTable(closed.number);
}

void Leases::closeGate(std::uint32_t index) {
  LeaseRegistry::instance().closeGate(gates_[index].number);
  gates_[index] = {};
}

namespace {

// Converts the bytes of a Text back to a string.
Napi::String fromBytes(napi_env env, const std::string& bytes) {
  std::u16string units(bytes.size() / sizeof(char16_t), u'\0');
  std::memcpy(units.data(), bytes.data(), bytes.size());
  return Napi::String::New(env, units);
}

// { owner, token, remaining, info? }
Napi::Object toObject(napi_env env, const LeaseTable::Info& info) {
  Napi::Object object = Napi::Object::New(env);
  // Passed as a Napi::Value, because Set() would convert a Napi::String to UTF-8 and back.
  object.Set("owner", Napi::Value(fromBytes(env, info.owner)));
  object.Set("token", Napi::BigInt::New(env, info.token));
  object.Set("remaining", Napi::Number::New(env, toMilliseconds(info.remaining)));
  if (!info.info.empty()) object.Set("info", Napi::Value(fromBytes(env, info.info)));
  return object;
}

// leaseElapsed(): the clock that also counts while the machine is suspended, in milliseconds
napi_value leaseElapsed(napi_env env, napi_callback_info info) {
  return Call(env, info, 0).number(toMilliseconds(elapsed()));
}

// leaseIssue(): a number for a new table
napi_value leaseIssue(napi_env env, napi_callback_info info) {
  return Call(env, info, 0).number(static_cast<double>(LeaseRegistry::instance().issue()));
}

// leaseOpen(number, ownClock): table, or kNotOpened for a number that was not issued
napi_value leaseOpen(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 2);
  std::uint64_t named = 0;
  bool ownClock = false;
  if (!call.started() || !call.toNumber(0, 1, kMaxNumber, named) || !call.toBoolean(1, ownClock))
    return call.refuse("expected a number and a boolean");
  return call.integer(call.leases().openTable(named, ownClock));
}

// leaseClose(table)
napi_value leaseClose(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 1);
  std::uint64_t place = 0;
  if (!call.toLeaseTable(0) || !call.toNumber(0, 0, kMaxNumber, place))
    return call.refuse("expected an open table");
  call.leases().closeTable(static_cast<std::uint32_t>(place));
  return nullptr;
}

// leaseAcquire(table, key, at, owner, ttl, info): the token as a bigint, or the milliseconds after which to retry. The
// token is negative if the key's last lease ended without a release
napi_value leaseAcquire(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 6);
  const LeaseArguments arguments(call);
  Nanoseconds ttl = 0;
  Text text;
  if (!arguments || !call.toTtl(4, ttl) || !call.toKey(5, text)) return arguments.refuse();
  const LeaseTable::Grant grant =
      arguments.table().tryAcquire(arguments.claim(), ttl, text.view(), call.leases().watches);
  if (grant.token == 0) return call.number(toMilliseconds(grant.retryAfter));
  if (grant.abandoned) return Napi::BigInt::New(env, -static_cast<std::int64_t>(grant.token));
  return Napi::BigInt::New(env, grant.token);
}

// leaseRenew(table, key, at, owner, ttl, info?): true if the owner holds the lease, which is then renewed
napi_value leaseRenew(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 6);
  const LeaseArguments arguments(call);
  Nanoseconds ttl = 0;
  Text text;
  if (!arguments || !call.toTtl(4, ttl)) return arguments.refuse();
  if (!call.has(5)) return call.boolean(arguments.table().renew(arguments.claim(), ttl));
  if (!call.toKey(5, text)) return arguments.refuse();
  const std::string_view replaced = text.view();
  return call.boolean(arguments.table().renew(arguments.claim(), ttl, &replaced));
}

// leaseEnd(table, key, at, owner, token): kLeaseNo, kLeaseDone or kLeaseDoneAndReady. Token 0 matches any grant of the
// owner
napi_value leaseEnd(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 5);
  const LeaseArguments arguments(call);
  std::uint64_t token = 0;
  if (!arguments || !call.toToken(4, token)) return arguments.refuse();
  const LeaseWatches& own = call.leases().watches;
  if (!arguments.table().end(arguments.claim(), token, &own)) return call.integer(kLeaseNo);
  return call.integer(own.hasReady() ? kLeaseDoneAndReady : kLeaseDone);
}

// leaseKeep(table, key, at, owner, token, keptOwner, time): like leaseEnd(), but the key then stays held
napi_value leaseKeep(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 7);
  const LeaseArguments arguments(call);
  std::uint64_t token = 0;
  Text keptOwner;
  Nanoseconds time = 0;
  if (!arguments || !call.toToken(4, token) || !call.toKey(5, keptOwner) || !call.toTtl(6, time))
    return arguments.refuse();
  const LeaseWatches& own = call.leases().watches;
  if (!arguments.table().keep(arguments.claim(), token, keptOwner.view(), time, &own))
    return call.integer(kLeaseNo);
  return call.integer(own.hasReady() ? kLeaseDoneAndReady : kLeaseDone);
}

// leaseTakeBack(table, key, at, owner, token, wasUsed): like leaseEnd(), for a grant that its holder did not release
napi_value leaseTakeBack(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 6);
  const LeaseArguments arguments(call);
  std::uint64_t token = 0;
  bool wasUsed = false;
  if (!arguments || !call.toToken(4, token) || !call.toBoolean(5, wasUsed)) return arguments.refuse();
  const LeaseWatches& own = call.leases().watches;
  if (!arguments.table().takeBack(arguments.claim(), token, wasUsed, &own)) return call.integer(kLeaseNo);
  return call.integer(own.hasReady() ? kLeaseDoneAndReady : kLeaseDone);
}

// leaseJoin(table, key, at, reader, ttl): { group, token }, or the milliseconds after which to retry. The token is
// negative if the key's last lease ended without a release
napi_value leaseJoin(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 5);
  const LeaseArguments arguments(call);
  Nanoseconds ttl = 0;
  if (!arguments || !call.toTtl(4, ttl)) return arguments.refuse();
  const LeaseTable::SharedGrant grant = arguments.table().join(arguments.claim(), ttl, call.leases().watches);
  if (grant.token == 0) return call.number(toMilliseconds(grant.retryAfter));
  const auto token = static_cast<std::int64_t>(grant.token);
  Napi::Object object = Napi::Object::New(env);
  object.Set("group", Napi::Value(fromBytes(env, grant.group)));
  object.Set("token", Napi::BigInt::New(env, grant.abandoned ? -token : token));
  return object;
}

// leaseLeave(table, key, at, reader): like leaseEnd(), for a reader; or kLeaseLeft if other readers hold the key
napi_value leaseLeave(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 4);
  const LeaseArguments arguments(call);
  if (!arguments) return arguments.refuse();
  const LeaseWatches& own = call.leases().watches;
  const LeaseTable::Leave left = arguments.table().leave(arguments.claim(), &own);
  if (left != LeaseTable::Leave::kFreed)
    return call.integer(left == LeaseTable::Leave::kNotIn ? kLeaseNo : kLeaseLeft);
  return call.integer(own.hasReady() ? kLeaseDoneAndReady : kLeaseDone);
}

// leasePutOff(table, key, at, time): true if a group of readers holds the key
napi_value leasePutOff(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 4);
  LeaseTable* const table = call.toLeaseTable(0);
  Text key;
  double at = 0;
  Nanoseconds now = 0;
  Nanoseconds time = 0;
  if (!table || !call.toKey(1, key) || !call.toDouble(2, at) || !toTime(at, now) || !call.toTtl(3, time))
    return call.refuse("expected an open table, a key and times");
  return call.boolean(table->putOffReaders(KeyView(key.view()), time, now));
}

// leaseInspect(table, key, at): { owner, token, remaining, info? }, or undefined
napi_value leaseInspect(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 3);
  const LeaseArguments arguments(call);
  if (!arguments) return arguments.refuse();
  const std::optional<LeaseTable::Info> found = arguments.table().inspect(arguments.key(), arguments.at());
  return found ? napi_value(toObject(env, *found)) : nullptr;
}

// Orders keys, given as the bytes of their UTF-16 code units, by code points. In UTF-16, surrogates encode the highest
// code points, but have lower values than some other code units.
bool isBefore(std::string_view a, std::string_view b) {
  const auto rankOf = [](char16_t unit) {
    if (unit < 0xd800) return static_cast<std::uint32_t>(unit);
    return unit < 0xe000 ? unit + 0x2000u : unit - 0x800u;
  };
  const std::size_t length = std::min(a.size(), b.size());
  for (std::size_t i = 0; i + sizeof(char16_t) <= length; i += sizeof(char16_t)) {
    char16_t x = 0;
    char16_t y = 0;
    std::memcpy(&x, a.data() + i, sizeof x);
    std::memcpy(&y, b.data() + i, sizeof y);
    if (x != y) return rankOf(x) < rankOf(y);
  }
  return a.size() < b.size();
}

// leaseList(table, prefix, at, most): [{ key, owner, token, remaining, info? }], the first `most` held leases with this
// prefix
napi_value leaseList(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 4);
  LeaseTable* const table = call.toLeaseTable(0);
  Text prefix;
  double at = 0;
  Nanoseconds time = 0;
  std::uint32_t most = 0;
  if (!table || !call.toKey(1, prefix) || !call.toDouble(2, at) || !toTime(at, time) || !call.toId(3, most))
    return call.refuse("expected an open table, a prefix, a time and a number");
  const std::vector<LeaseTable::Listed> listed = table->list(prefix.view(), most, isBefore, time);
  Napi::Array list = Napi::Array::New(env, listed.size());
  for (std::uint32_t i = 0; i < listed.size(); ++i) {
    const Napi::HandleScope scope(env);
    Napi::Object object = toObject(env, listed[i].info);
    object.Set("key", Napi::Value(fromBytes(env, listed[i].key)));
    list.Set(i, object);
  }
  return list;
}

// leaseSize(table): the number of entries, including expired ones that are not swept yet
napi_value leaseSize(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 1);
  LeaseTable* const table = call.toLeaseTable(0);
  if (!table) return call.refuse("expected an open table");
  return call.number(static_cast<double>(table->size()));
}

// leaseWatch(table, key): id
napi_value leaseWatch(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 2);
  LeaseTable* const table = call.toLeaseTable(0);
  Text key;
  if (!table || !call.toKey(1, key)) return call.refuse("expected a table and a key");
  return call.unsignedInteger(call.leases().watches.add(*table, KeyView(key.view())));
}

// leaseUnwatch(id): whether the watch existed
napi_value leaseUnwatch(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 1);
  std::uint32_t id = 0;
  if (!call.started() || !call.toId(0, id)) return call.refuse("expected an id");
  return call.boolean(call.leases().watches.remove(id));
}

// takeReleasedKeys(out): the number of ids, plus kMore. `out` gets the ids of watches whose keys were released
napi_value takeReleasedKeys(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 1);
  std::int32_t* out = nullptr;
  std::size_t length = 0;
  if (!call.started() || !call.toInts(0, out, length) || length == 0)
    return call.refuse("expected an Int32Array with room for an id");
  std::array<std::uint32_t, kBatch> ids;
  const std::size_t room = std::min(ids.size(), length);
  const std::size_t count = call.leases().watches.take(ids.data(), room);
  std::copy_n(ids.begin(), count, out);
  return call.batch(count, room);
}

}  // namespace

void addLeases(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "leaseElapsed", leaseElapsed);
  addFunction(env, exports, "leaseIssue", leaseIssue);
  addFunction(env, exports, "leaseOpen", leaseOpen);
  addFunction(env, exports, "leaseClose", leaseClose);
  addFunction(env, exports, "leaseAcquire", leaseAcquire);
  addFunction(env, exports, "leaseRenew", leaseRenew);
  addFunction(env, exports, "leaseEnd", leaseEnd);
  addFunction(env, exports, "leaseKeep", leaseKeep);
  addFunction(env, exports, "leaseTakeBack", leaseTakeBack);
  addFunction(env, exports, "leaseJoin", leaseJoin);
  addFunction(env, exports, "leaseLeave", leaseLeave);
  addFunction(env, exports, "leasePutOff", leasePutOff);
  addFunction(env, exports, "leaseInspect", leaseInspect);
  addFunction(env, exports, "leaseList", leaseList);
  addFunction(env, exports, "leaseSize", leaseSize);
  addFunction(env, exports, "leaseWatch", leaseWatch);
  addFunction(env, exports, "leaseUnwatch", leaseUnwatch);
  addFunction(env, exports, "takeReleasedKeys", takeReleasedKeys);
}

}  // namespace stripelock
