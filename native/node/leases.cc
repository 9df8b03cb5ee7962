#include "node/leases.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "node/arguments.h"
#include "node/environment.h"
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
  if (!object) return -1;
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
  // It may be open here a second time, until the first is found to be garbage.
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

napi_value number(napi_env env, double value) {
  napi_value result = nullptr;
  napi_create_double(env, value, &result);
  return result;
}

napi_value boolean(napi_env env, bool value) {
  napi_value result = nullptr;
  napi_get_boolean(env, value, &result);
  return result;
}

napi_value undefined(napi_env env) {
  napi_value result = nullptr;
  napi_get_undefined(env, &result);
  return result;
}

napi_value tokenOrUndefined(napi_env env, std::uint64_t token) {
  if (token == 0) return undefined(env);
  napi_value result = nullptr;
  napi_create_bigint_uint64(env, token, &result);
  return result;
}

double toMilliseconds(Nanoseconds time) { return static_cast<double>(time) / kNanosecondsPerMillisecond; }

// The opposite of Text.
Napi::String fromBytes(napi_env env, const std::string& bytes) {
  std::u16string units(bytes.size() / sizeof(char16_t), u'\0');
  std::memcpy(units.data(), bytes.data(), bytes.size());
  return Napi::String::New(env, units);
}

// (table, key, who, …) as most of them take. Who: an owner's name; or, to acquire, undefined for one without a name;
// or, for what was acquired, its token.
struct LeaseArguments {
  explicit LeaseArguments(const Call& call) : table(call.table(0)), valid(table && call.text(1, key)) {}
  bool readOwner(const Call& call) { return valid && call.textOrUndefined(2, owner); }
  bool readHolder(const Call& call) { return valid && (call.token(2, token) || call.text(2, owner)); }
  LeaseTable::Claim claim(Nanoseconds at) const {
    return {.key = KeyView(key.view()), .owner = owner.view(), .token = token, .at = at};
  }

  LeaseTable* const table;
  Text key;
  Text owner;
  std::uint64_t token = 0;
  const bool valid;
};

// leaseIssue(): a number for a new table or gate
napi_value leaseIssue(napi_env env, napi_callback_info) {
  return number(env, static_cast<double>(LeaseRegistry::instance().issue()));
}

// leaseOpen(number, ownClock): table, or -1 for a number that was not issued
napi_value leaseOpen(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  std::uint64_t named = 0;
  bool ownClock = false;
  if (!call.leases || !call.integer(0, 1, kMaxNumber, named) || !call.boolean(1, ownClock))
    return invalidArgument(env, "expected a number and a boolean");
  return number(env, call.leases->openTable(named, ownClock));
}

// leaseClose(table)
napi_value leaseClose(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  std::uint64_t place = 0;
  if (!call.table(0) || !call.integer(0, 0, 1e9, place))
    return invalidArgument(env, "expected an open table");
  call.leases->closeTable(static_cast<std::uint32_t>(place));
  return undefined(env);
}

// leaseAcquire(table, key, owner?, ttl, at): token, or undefined
napi_value leaseAcquire(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  LeaseArguments arguments(call);
  Nanoseconds ttl = 0;
  Nanoseconds at = 0;
  if (!arguments.readOwner(call) || !call.duration(3, ttl) || !call.time(4, at))
    return invalidArgument(env, "expected a table, a key, an owner and two times");
  return tokenOrUndefined(env, arguments.table->tryAcquire(arguments.claim(at), ttl));
}

// leaseTakeTurn(table, key, owner?, ttl, at): token, or the milliseconds after which to try again
napi_value leaseTakeTurn(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  LeaseArguments arguments(call);
  Nanoseconds ttl = 0;
  Nanoseconds at = 0;
  if (!arguments.readOwner(call) || !call.duration(3, ttl) || !call.time(4, at))
    return invalidArgument(env, "expected a table, a key, an owner and two times");
  const LeaseTable::Turn turn = arguments.table->takeTurn(arguments.claim(at), ttl, call.leases->watches);
  return turn.token != 0 ? tokenOrUndefined(env, turn.token) : number(env, toMilliseconds(turn.retryAfter));
}

// leaseRenew(table, key, owner or token, ttl, at): whether it was held
napi_value leaseRenew(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  LeaseArguments arguments(call);
  Nanoseconds ttl = 0;
  Nanoseconds at = 0;
  if (!arguments.readHolder(call) || !call.duration(3, ttl) || !call.time(4, at))
    return invalidArgument(env, "expected a table, a key, an owner and two times");
  return boolean(env, arguments.table->renew(arguments.claim(at), ttl));
}

// leaseRelease(table, key, owner or token, at): 0 not held, 1 freed, 2 freed and leaseTake() has something
napi_value leaseRelease(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  LeaseArguments arguments(call);
  Nanoseconds at = 0;
  if (!arguments.readHolder(call) || !call.time(3, at))
    return invalidArgument(env, "expected a table, a key, an owner and a time");
  LeaseWatches& watches = call.leases->watches;
  if (!arguments.table->release(arguments.claim(at), &watches)) return number(env, 0);
  return number(env, watches.hasReady() ? 2 : 1);
}

// leaseInspect(table, key, at): { owner, token, remaining }, or undefined
napi_value leaseInspect(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  LeaseTable* const table = call.table(0);
  Text key;
  Nanoseconds at = 0;
  if (!table || !call.text(1, key) || !call.time(2, at))
    return invalidArgument(env, "expected a table, a key and a time");
  const std::optional<LeaseTable::Info> found = table->inspect(KeyView(key.view()), at);
  if (!found) return undefined(env);
  Napi::Object object = Napi::Object::New(env);
  // As a value: a string would be converted to UTF-8 and back.
  object.Set("owner", Napi::Value(fromBytes(env, found->owner)));
  object.Set("token", Napi::BigInt::New(env, found->token));
  object.Set("remaining", Napi::Number::New(env, toMilliseconds(found->remaining)));
  return object;
}

// leaseSize(table): entries, expired ones that are not swept included
napi_value leaseSize(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  const LeaseTable* const table = call.table(0);
  if (!table) return invalidArgument(env, "expected an open table");
  return number(env, static_cast<double>(table->size()));
}

// leaseWatch(table, key): id
napi_value leaseWatch(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  LeaseTable* const table = call.table(0);
  Text key;
  if (!table || !call.text(1, key)) return invalidArgument(env, "expected a table and a key");
  return number(env, call.leases->watches.add(*table, KeyView(key.view())));
}

// leaseUnwatch(id)
napi_value leaseUnwatch(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  std::uint64_t id = 0;
  if (!call.leases || !call.integer(0, 0, 4294967295.0, id)) return invalidArgument(env, "expected an id");
  return boolean(env, call.leases->watches.remove(static_cast<std::uint32_t>(id)));
}

// leaseTake(out): how many; out gets the ids of watches whose keys were released
napi_value leaseTake(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  const Napi::Value value(env, call.at(0));
  if (!call.leases || !isInt32Array(value)) return invalidArgument(env, "expected an Int32Array");
  auto out = value.As<Napi::Int32Array>();
  std::array<std::uint32_t, 128> ids;
  const std::size_t count = call.leases->watches.take(ids.data(), std::min(ids.size(), out.ElementLength()));
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::int32_t>(ids[i]);
  return number(env, static_cast<double>(count));
}

// gateOpen(number, capacity): gate, or -1 for a number that was not issued
napi_value gateOpen(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  std::uint64_t named = 0;
  std::uint64_t capacity = 0;
  if (!call.leases || !call.integer(0, 1, kMaxNumber, named) || !call.integer(1, 1, 4294967295.0, capacity))
    return invalidArgument(env, "expected a number and a capacity");
  return number(env, call.leases->openGate(named, static_cast<std::uint32_t>(capacity)));
}

// gateClose(gate)
napi_value gateClose(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  std::uint64_t place = 0;
  if (!call.gate(0) || !call.integer(0, 0, 1e9, place)) return invalidArgument(env, "expected an open gate");
  call.leases->closeGate(static_cast<std::uint32_t>(place));
  return undefined(env);
}

// gateAdmit(gate, key, token): undefined, or the higher token on account of which it is refused
napi_value gateAdmit(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  FencingGate* const gate = call.gate(0);
  Text key;
  std::uint64_t token = 0;
  if (!gate || !call.text(1, key) || !call.token(2, token))
    return invalidArgument(env, "expected a gate, a key and a token");
  return tokenOrUndefined(env, gate->admit(KeyView(key.view()), token));
}

// gateSize(gate): keys that are remembered
napi_value gateSize(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  const FencingGate* const gate = call.gate(0);
  if (!gate) return invalidArgument(env, "expected an open gate");
  return number(env, static_cast<double>(gate->size()));
}

}  // namespace

void addLeases(Napi::Env env, Napi::Object exports) {
  const auto add = [&](const char* name, napi_callback function) {
    napi_value value = nullptr;
    napi_create_function(env, name, NAPI_AUTO_LENGTH, function, nullptr, &value);
    exports.Set(name, value);
  };
  add("leaseIssue", leaseIssue);
  add("leaseOpen", leaseOpen);
  add("leaseClose", leaseClose);
  add("leaseAcquire", leaseAcquire);
  add("leaseTakeTurn", leaseTakeTurn);
  add("leaseRenew", leaseRenew);
  add("leaseRelease", leaseRelease);
  add("leaseInspect", leaseInspect);
  add("leaseSize", leaseSize);
  add("leaseWatch", leaseWatch);
  add("leaseUnwatch", leaseUnwatch);
  add("leaseTake", leaseTake);
  add("gateOpen", gateOpen);
  add("gateClose", gateClose);
  add("gateAdmit", gateAdmit);
  add("gateSize", gateSize);
}

}  // namespace stripelock
