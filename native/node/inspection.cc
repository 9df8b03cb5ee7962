#include "node/inspection.h"

#include <string>
#include <utility>
#include <vector>

#include "core/table/inspect.h"
#include "node/call.h"
#include "node/exact_keys.h"

namespace stripelock {

namespace {

constexpr auto kLastKind = static_cast<std::uint32_t>(LockKind::kWebLock);

// holders(table, stripe): the ids of the threads that hold the stripe
napi_value holders(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  Membership* const membership = call.toTable(0);
  std::uint32_t stripe = 0;
  if (!membership || !call.toIndex(1, membership->table().stripes() - 1, stripe))
    return call.refuse("expected an open table and a stripe");
  return toArray(env, holdersOf(membership->table(), stripe));
}

// held(table): the number of stripes that are held
napi_value held(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  Membership* const membership = call.toTable(0);
  if (!membership) return call.refuse("expected an open table");
  return call.unsignedInteger(countHeld(membership->table()));
}

// metrics(): for each kind and name: [kind, name, locks, held, waiting, contended, timeouts, aborts, deadlocks,
// abandoned, acquired, refused, renewals, failures, losses, nanoseconds waited, waits of each range …]. Waits for locks
// are measured from the first call on
napi_value metrics(napi_env environment, napi_callback_info) {
  const Napi::Env env = environment;
  Registry& registry = Registry::instance();
  registry.observe(kObserveMetrics, true);
  Napi::Array result = Napi::Array::New(env);
  std::uint32_t at = 0;
  for (const auto& [key, of] : registry.metrics()) {
    Napi::Array row = Napi::Array::New(env);
    std::uint32_t column = 0;
    row.Set(column++, Napi::Number::New(env, static_cast<double>(key.kind)));
    row.Set(column++, Napi::String::New(env, key.name));
    for (const std::uint64_t count : of.cells)
      row.Set(column++, Napi::Number::New(env, static_cast<double>(count)));
    result.Set(at++, row);
  }
  return result;
}

// openCounts(kind, name, cells): adds a thread's counts of leases or web locks to metrics(). `cells` is a shared
// Float64Array with the columns of metrics(), from `locks` on, and a cell for the flags of the active observers
napi_value openCounts(napi_env env, napi_callback_info info) {
  const Call call(env, info, 3);
  std::uint32_t kind = 0;
  std::string name;
  Napi::Float64Array cells;
  if (!call.started() || !call.toIndex(0, kLastKind, kind) || !call.toText(1, name) ||
      !call.toSharedDoubles(2, cells) || cells.ElementLength() != LockMetrics::kThreadCells) {
    return call.refuse("expected a kind, a name and a shared Float64Array of the right size");
  }
  call.environment().openCounts({.kind = static_cast<LockKind>(kind), .name = std::move(name)}, cells);
  return nullptr;
}

// locals(table): [waiting, contended], the counts of acquisitions that wait in JavaScript, in all threads
napi_value locals(napi_env environment, napi_callback_info info) {
  const Call call(environment, info, 1);
  Membership* const membership = call.toTable(0);
  if (!membership) return call.refuse("expected an open table");
  const LocalCounts counts = countLocals(membership->table());
  const Napi::Env env = environment;
  Napi::Array result = Napi::Array::New(env, 2);
  result.Set(0u, Napi::Number::New(env, static_cast<double>(counts.waiting)));
  result.Set(1u, Napi::Number::New(env, static_cast<double>(counts.contended)));
  return result;
}

// counts(table, stripe or key): [word, waiting]. The second argument is a key if the table is exact
napi_value counts(napi_env environment, napi_callback_info info) {
  const Call call(environment, info, 2);
  Membership* const membership = call.toTable(0);
  if (!membership) return call.refuse("expected an open table");
  Table& table = membership->table();
  std::uint32_t stripe = 0;
  std::string key;
  if (table.keys() ? !readKey(environment, call.at(1), key) : !call.toIndex(1, table.stripes() - 1, stripe))
    return call.refuse("expected a stripe of the table, or a key");
  const StripeCounts counts = table.keys() ? countsOf(table, KeyView(key)) : countsOf(table, stripe);
  return toArray(environment,
                 {static_cast<std::int32_t>(counts.word), static_cast<std::int32_t>(counts.waiting)});
}

Napi::Array tracedArray(Napi::Env env, const StripeInfo& stripe) {
  Napi::Array result = Napi::Array::New(env, stripe.traced.size());
  for (std::size_t i = 0; i < stripe.traced.size(); ++i) {
    const StripeInfo::Traced& traced = stripe.traced[i];
    Napi::Object object = Napi::Object::New(env);
    object.Set("threadId", Napi::Number::New(env, traced.threadId));
    object.Set("heldFor", Napi::Number::New(env, traced.milliseconds));
    object.Set("note", Napi::String::New(env, traced.note));
    result.Set(static_cast<std::uint32_t>(i), object);
  }
  return result;
}

Napi::Array waitersArray(Napi::Env env, const StripeInfo& stripe) {
  Napi::Array result = Napi::Array::New(env, stripe.waiters.size());
  for (std::size_t i = 0; i < stripe.waiters.size(); ++i) {
    const StripeInfo::Waiting& waiting = stripe.waiters[i];
    Napi::Object object = Napi::Object::New(env);
    object.Set("threadId", Napi::Number::New(env, waiting.threadId));
    object.Set("async", Napi::Boolean::New(env, waiting.async));
    object.Set("mode", Napi::Number::New(env, static_cast<int>(waiting.mode)));
    object.Set("waitingFor", Napi::Number::New(env, waiting.milliseconds));
    object.Set("note", Napi::String::New(env, waiting.note));
    result.Set(static_cast<std::uint32_t>(i), object);
  }
  return result;
}

Napi::Array localsArray(Napi::Env env, const StripeInfo& stripe) {
  Napi::Array result = Napi::Array::New(env, stripe.locals.size());
  for (std::size_t i = 0; i < stripe.locals.size(); ++i) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("threadId", Napi::Number::New(env, stripe.locals[i].threadId));
    object.Set("count", Napi::Number::New(env, stripe.locals[i].count));
    result.Set(static_cast<std::uint32_t>(i), object);
  }
  return result;
}

// inspect(table): [{ stripe, word, key, holders: [threadId], traced: [{ threadId, heldFor, note }],
//                    waiters: [{ threadId, async, mode, waitingFor, note }], locals: [{ threadId, count }] }]
napi_value inspectTable(napi_env environment, napi_callback_info info) {
  const Call call(environment, info, 1);
  Membership* const membership = call.toTable(0);
  if (!membership) return call.refuse("expected an open table");
  const Napi::Env env = environment;
  const std::vector<StripeInfo> stripes = inspect(membership->table());
  Napi::Array result = Napi::Array::New(env, stripes.size());
  for (std::size_t i = 0; i < stripes.size(); ++i) {
    const Napi::HandleScope scope(env);
    const StripeInfo& stripe = stripes[i];
    Napi::Object object = Napi::Object::New(env);
    object.Set("stripe", Napi::Number::New(env, stripe.stripe));
    object.Set("word", Napi::Number::New(env, static_cast<std::int32_t>(stripe.word)));
    if (!stripe.key.empty()) object.Set("key", toKey(env, stripe.key));
    object.Set("holders", toArray(env, stripe.holders));
    object.Set("traced", tracedArray(env, stripe));
    object.Set("waiters", waitersArray(env, stripe));
    object.Set("locals", localsArray(env, stripe));
    result.Set(static_cast<std::uint32_t>(i), object);
  }
  return result;
}

// addNote(table, stripes, text): id
napi_value addNote(napi_env env, napi_callback_info info) {
  const Call call(env, info, 3);
  Membership* const membership = call.toTable(0);
  std::int32_t* stripes = nullptr;
  std::size_t length = 0;
  std::string text;
  if (!membership || !call.toInts(1, stripes, length) || !call.toText(2, text))
    return call.refuse("expected an open table, stripes and a text");
  return call.unsignedInteger(
      membership->table().notes.add({.membership = membership,
                                     .threadId = membership->participant().threadId(),
                                     .stripes = std::vector<std::uint32_t>(stripes, stripes + length),
                                     .text = std::move(text),
                                     .since = now()}));
}

// removeNote(table, id)
napi_value removeNote(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  Membership* const membership = call.toTable(0);
  std::uint32_t id = 0;
  if (!membership || !call.toId(1, id)) return call.refuse("expected an open table and a note's id");
  membership->table().notes.remove(id);
  return nullptr;
}

}  // namespace

void addInspection(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "holders", holders);
  addFunction(env, exports, "held", held);
  addFunction(env, exports, "metrics", metrics);
  addFunction(env, exports, "openCounts", openCounts);
  addFunction(env, exports, "locals", locals);
  addFunction(env, exports, "counts", counts);
  addFunction(env, exports, "inspect", inspectTable);
  addFunction(env, exports, "addNote", addNote);
  addFunction(env, exports, "removeNote", removeNote);
}

}  // namespace stripelock
