#include "node/leases.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "node/lease_call.h"

namespace stripelock {

Leases::~Leases() {
  keeper->end();
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
  // The same table may be open twice here, until the garbage collector finds the first handle.
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

// The opposite of Text.
Napi::String fromBytes(napi_env env, const std::string& bytes) {
  std::u16string units(bytes.size() / sizeof(char16_t), u'\0');
  std::memcpy(units.data(), bytes.data(), bytes.size());
  return Napi::String::New(env, units);
}

napi_value refuseLease(const Call& call) {
  return call.refuse("expected a key, an owner or none, and a table and two times in the exchange");
}

// leaseIssue(): a number for a new table
napi_value leaseIssue(napi_env env, napi_callback_info info) {
  return Call(env, info, 0).number(static_cast<double>(LeaseRegistry::instance().issue()));
}

// leaseExchange(numbers): `numbers` is all of a SharedArrayBuffer, laid out as LeaseExchange
napi_value leaseExchange(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 1);
  napi_typedarray_type type{};
  std::size_t length = 0;
  std::size_t offset = 0;
  const bool valid =
      call.started() &&
      napi_get_typedarray_info(env, call.at(0), &type, &length, nullptr, nullptr, &offset) == napi_ok &&
      type == napi_float64_array && offset == 0 && length * sizeof(double) == sizeof(LeaseExchange) &&
      isInSharedMemory(env, call.at(0));
  if (!valid) return call.refuse("expected a shared Float64Array of the size of an exchange");
  call.environment().openLeaseExchange({env, call.at(0)});
  return nullptr;
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

// leaseFirstToken(table)
napi_value leaseFirstToken(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 1);
  const LeaseTable* const table = call.toLeaseTable(0);
  if (!table) return call.refuse("expected an open table");
  return Napi::BigInt::New(env, table->firstToken());
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

// Writes the result into the exchange.
napi_value granted(const LeaseArguments& arguments, const LeaseTable::Grant& grant) {
  LeaseExchange& exchange = arguments.exchange();
  exchange.status = grant.token != 0 ? kLeaseDone : kLeaseNo;
  exchange.hint = grant.hint;
  if (grant.token != 0) {
    exchange.grant = static_cast<double>(grant.token - arguments.table().firstToken());
    const bool steady = arguments.at() == LeaseTable::kSteady;
    exchange.since = toMilliseconds(grant.since) + (steady ? exchange.offset : 0);
  } else {
    exchange.retryAfter = toMilliseconds(grant.retryAfter);
  }
  return nullptr;
}

// leaseAcquire(key, owner?)
napi_value leaseAcquire(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 2);
  const LeaseArguments arguments(call);
  Nanoseconds ttl = 0;
  if (!arguments || !arguments.readTtl(ttl)) return refuseLease(call);
  return granted(arguments, arguments.table().tryAcquire(arguments.claim(), ttl));
}

// leaseTakeTurn(key, owner?)
napi_value leaseTakeTurn(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 2);
  const LeaseArguments arguments(call);
  Nanoseconds ttl = 0;
  if (!arguments || !arguments.readTtl(ttl)) return refuseLease(call);
  return granted(arguments, arguments.table().takeTurn(arguments.claim(), ttl, call.leases().watches));
}

std::int32_t statusOf(bool done, const LeaseWatches& watches) {
  if (!done) return kLeaseNo;
  return watches.hasReady() ? kLeaseDoneAndReady : kLeaseDone;
}

// leaseRenew(key, owner?)
napi_value leaseRenew(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 2);
  const LeaseArguments arguments(call);
  Nanoseconds ttl = 0;
  if (!arguments || !arguments.readTtl(ttl)) return refuseLease(call);
  const std::optional<LeaseTable::Claim> held = arguments.held();
  if (!held) return refuseLease(call);
  const LeaseWatches& watches = call.leases().watches;
  const bool renewed = arguments.table().renew(*held, ttl, &watches);
  arguments.exchange().status = statusOf(renewed, watches);
  return nullptr;
}

// leaseSetInfo(key, owner, info)
napi_value leaseSetInfo(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 3);
  const LeaseArguments arguments(call);
  Text text;
  if (!arguments || !call.toKey(2, text)) return refuseLease(call);
  const bool kept = arguments.table().setInfo(arguments.claim(), text.view());
  arguments.exchange().status = kept ? kLeaseDone : kLeaseNo;
  return nullptr;
}

// leaseRelease(key, owner?)
napi_value leaseRelease(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 2);
  const LeaseArguments arguments(call);
  if (!arguments) return refuseLease(call);
  const std::optional<LeaseTable::Claim> held = arguments.held();
  if (!held) return refuseLease(call);
  const LeaseWatches& watches = call.leases().watches;
  const bool released = arguments.table().release(*held, &watches);
  arguments.exchange().status = statusOf(released, watches);
  return nullptr;
}

// leaseReleaseHinted()
napi_value leaseReleaseHinted(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 0);
  LeaseExchange* const exchange = call.started() ? call.leases().exchange : nullptr;
  LeaseTable* const table = exchange ? call.leaseTable(exchange->table) : nullptr;
  Nanoseconds at = 0;
  std::uint64_t token = 0;
  if (!table || !toTime(exchange->at, at) || !toToken(*table, exchange->grant, token))
    return refuseLease(call);
  const LeaseWatches& watches = call.leases().watches;
  const std::optional<bool> released = table->releaseHinted(exchange->hint, token, at, &watches);
  exchange->status = released ? statusOf(*released, watches) : kLeaseUnknown;
  return nullptr;
}

// leaseInspect(key): { owner, token, remaining, info? }, or undefined
napi_value leaseInspect(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 2);
  const LeaseArguments arguments(call);
  if (!arguments) return refuseLease(call);
  const std::optional<LeaseTable::Info> found = arguments.table().inspect(arguments.key(), arguments.at());
  if (!found) return nullptr;
  Napi::Object object = Napi::Object::New(env);
  // Passed as a Napi::Value: a string would be converted to UTF-8 and back.
  object.Set("owner", Napi::Value(fromBytes(env, found->owner)));
  object.Set("token", Napi::BigInt::New(env, found->token));
  object.Set("remaining", Napi::Number::New(env, toMilliseconds(found->remaining)));
  if (!found->info.empty()) object.Set("info", Napi::Value(fromBytes(env, found->info)));
  return object;
}

// leaseSize(table): entries, including expired ones that are not swept yet
napi_value leaseSize(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 1);
  const LeaseTable* const table = call.toLeaseTable(0);
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

// leaseUnwatch(id)
napi_value leaseUnwatch(napi_env env, napi_callback_info info) {
  const LeaseCall call(env, info, 1);
  std::uint32_t id = 0;
  if (!call.started() || !call.toId(0, id)) return call.refuse("expected an id");
  return call.boolean(call.leases().watches.remove(id));
}

// takeReleasedKeys(out): how many, and kMore. `out` gets the ids of watches whose keys were released
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
  addFunction(env, exports, "leaseIssue", leaseIssue);
  addFunction(env, exports, "leaseExchange", leaseExchange);
  addFunction(env, exports, "leaseOpen", leaseOpen);
  addFunction(env, exports, "leaseFirstToken", leaseFirstToken);
  addFunction(env, exports, "leaseClose", leaseClose);
  addFunction(env, exports, "leaseAcquire", leaseAcquire);
  addFunction(env, exports, "leaseTakeTurn", leaseTakeTurn);
  addFunction(env, exports, "leaseRenew", leaseRenew);
  addFunction(env, exports, "leaseSetInfo", leaseSetInfo);
  addFunction(env, exports, "leaseRelease", leaseRelease);
  addFunction(env, exports, "leaseReleaseHinted", leaseReleaseHinted);
  addFunction(env, exports, "leaseInspect", leaseInspect);
  addFunction(env, exports, "leaseSize", leaseSize);
  addFunction(env, exports, "leaseWatch", leaseWatch);
  addFunction(env, exports, "leaseUnwatch", leaseUnwatch);
  addFunction(env, exports, "takeReleasedKeys", takeReleasedKeys);
}

}  // namespace stripelock
