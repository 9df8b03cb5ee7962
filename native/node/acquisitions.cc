#include "node/acquisitions.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "core/table/inspect.h"
#include "node/call.h"
#include "node/exact_keys.h"

namespace stripelock {

namespace {

// The number of stripes that fit without an allocation.
constexpr std::size_t kFewStripes = 64;

struct Acquire {
  Membership* membership = nullptr;
  Request request{};
  std::string note;
  // A copy of the caller's array, because another thread, or JavaScript run by an interrupt, may write to that array.
  std::array<std::uint32_t, kFewStripes> few;
  std::vector<std::uint32_t> many;

  std::uint32_t* room(std::size_t count) {
    if (count <= few.size()) return few.data();
    many.resize(count);
    return many.data();
  }
};

// Reads the arguments (table, stripes, count, taken, mode, timeout, note?, waited?, arrival?). Returns false if they
// are invalid; an exception is then pending.
bool readAcquire(const Call& call, Acquire& acquire) {
  acquire.membership = call.toTable(0);
  Request& request = acquire.request;
  bool valid = acquire.membership && call.toIndex(2, kMaxStripes, request.count) &&
               call.toIndex(3, request.count, request.taken) &&
               call.toMode(4, acquire.membership->table(), request.mode) && call.toDouble(5, request.timeout);
  if (valid && call.isNumber(1)) {
    valid = request.count == 1 && call.toIndex(1, kMaxStripes, acquire.few[0]);
    request.stripes = acquire.few.data();
  } else if (valid) {
    std::int32_t* stripes = nullptr;
    std::size_t length = 0;
    valid = call.toInts(1, stripes, length) && request.count > 0 && request.count <= length;
    if (valid) {
      std::uint32_t* const copy = acquire.room(request.count);
      std::copy_n(stripes, request.count, copy);
      request.stripes = copy;
    }
  }
  // The core relies on ascending stripes, and uses them as indexes.
  valid = valid && request.stripes[request.count - 1] < acquire.membership->table().stripes() &&
          (!isCounted(request.mode) || acquire.membership->hasShares());
  for (std::uint32_t i = 1; valid && i < request.count; ++i)
    valid = request.stripes[i - 1] < request.stripes[i];
  if (!valid) {
    call.refuse(
        "expected a table, its stripes in rising order, how many, how many of them are taken, "
        "a mode and a number");
    return false;
  }
  if (call.toText(6, acquire.note)) request.note = &acquire.note;
  if (call.has(7) && (!call.toDouble(7, request.waited) || !call.toIndex(8, kArrivalMask, request.arrival))) {
    call.refuse("expected a number of milliseconds and one of arrivals");
    return false;
  }
  return true;
}

Napi::Object outcome(Napi::Env env, const char* status) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("status", Napi::String::New(env, status));
  return object;
}

Napi::Value timeoutOutcome(Napi::Env env, Table& table, std::uint32_t stripe) {
  Napi::Object object = outcome(env, "timeout");
  object.Set("stripe", Napi::Number::New(env, stripe));
  object.Set("holders", toArray(env, holdersOf(table, stripe)));
  return object;
}

// If the table belongs to a file, sets `keys` to the keys that the threads wait for. A thread that waits for anything
// but a key of this file has no entry.
Napi::Object deadlockOutcome(Napi::Env env, const Table& table, const std::vector<Blocked>& cycle,
                             bool waited) {
  std::vector<std::int32_t> threads;
  std::vector<std::int32_t> stripes;
  const Napi::Array keys = Napi::Array::New(env, cycle.size());
  for (const Blocked& blocked : cycle) {
    if (table.gate() && blocked.table == &table)
      keys.Set(static_cast<std::uint32_t>(threads.size()), toKey(env, blocked.key));
    threads.push_back(blocked.threadId);
    stripes.push_back(static_cast<std::int32_t>(blocked.stripe));
  }
  Napi::Object object = outcome(env, "deadlock");
  object.Set("threads", toArray(env, threads));
  object.Set("stripes", toArray(env, stripes));
  if (table.gate()) object.Set("keys", keys);
  object.Set("waited", Napi::Boolean::New(env, waited));
  return object;
}

Napi::Object failedOutcome(Napi::Env env, const FileError& error, bool waited) {
  Napi::Object object = outcome(env, "failed");
  object.Set("fault", Napi::Number::New(env, static_cast<int>(error.fault)));
  object.Set("number", Napi::Number::New(env, error.number));
  object.Set("waited", Napi::Boolean::New(env, waited));
  return object;
}

// The detail in an entry of takeGrants(): whether some stripe was abandoned, and the draw for the wait. If the gate
// failed: its error.
std::int32_t detailOf(const AsyncWaits::Granted& grant) {
  if (grant.error)
    return kEntryFailed | static_cast<std::int32_t>(grant.error.fault) << kFaultShift |
           (grant.error.number & 0xffff);
  return (grant.abandoned ? 1 : 0) | (static_cast<std::int32_t>(grant.draw) << kDrawShift);
}

napi_value granted(const Call& call, bool abandoned) {
  return call.integer(abandoned ? kGrantedAbandoned : kGranted);
}

// acquireSync(table, stripes, count, taken, mode, timeout, note?): kGranted, kGrantedAbandoned, kGrantedLate,
// kGrantedLateAbandoned, an Outcome, or undefined if the host is ending this thread or its script. `stripes` is a
// single stripe, or an Int32Array that begins with the stripes.
napi_value acquireSync(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  Acquire acquire;
  if (!readAcquire(call, acquire)) return nullptr;
  Environment& environment = call.environment();
  // An interrupt of a blocked call can run JavaScript that calls this function again. The blocked call cannot
  // continue before this one returns, so this one must not wait.
  if (environment.blocked()) acquire.request.timeout = 0;
  const SyncOutcome result = environment.acquireSync(env, *acquire.membership, acquire.request);
  switch (result.status) {
    case SyncOutcome::Status::kGranted:
      if (!result.waited) return granted(call, result.abandoned);
      return call.integer(result.abandoned ? kGrantedLateAbandoned : kGrantedLate);
    case SyncOutcome::Status::kTimedOut:
      return timeoutOutcome(env, acquire.membership->table(), result.stripe);
    case SyncOutcome::Status::kDeadlock:
      return deadlockOutcome(env, acquire.membership->table(), result.cycle, result.waited);
    case SyncOutcome::Status::kFailed:
      return failedOutcome(env, result.error, result.waited);
    case SyncOutcome::Status::kInterrupted:
      break;
  }
  // The thread may no longer be able to create an object.
  return nullptr;
}

// acquireAsync(…, waited?, arrival?): kGranted, kGrantedAbandoned, an Outcome, or the waiter's id. The first arguments
// are those of acquireSync. The last two arguments are for an acquisition that has already waited in JavaScript: how
// long it has waited, in milliseconds, and its arrival number
napi_value acquireAsync(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  Acquire acquire;
  if (!readAcquire(call, acquire)) return nullptr;
  AsyncWaits& waits = call.environment().participant().asyncWaits();
  const AsyncWaits::Started started = waits.start(*acquire.membership, acquire.request);
  switch (started.status) {
    case AsyncStart::kGranted:
      return granted(call, started.abandoned);
    case AsyncStart::kTimedOut:
      return timeoutOutcome(env, acquire.membership->table(), started.stripe);
    case AsyncStart::kFailed:
      return failedOutcome(env, started.error, false);
    case AsyncStart::kPending:
      break;
  }
  // If the thread is blocked, an interrupt made this call (see acquireSync), and the thread's async waiters must hold
  // nothing.
  if (call.environment().blocked()) waits.reclaim();
  return call.integer(static_cast<std::int32_t>(started.id));
}

// tryEnter(table, stripe): whether this thread now holds the stripe, exclusively. The table must have a gate
napi_value tryEnter(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  Membership* const membership = call.toTable(0);
  std::uint32_t stripe = 0;
  if (!membership || !membership->table().gate() ||
      !call.toIndex(1, membership->table().stripes() - 1, stripe))
    return call.refuse("expected the table of a file and a stripe");
  return call.boolean(membership->tryEnter(stripe));
}

// cancel(id): whether the waiter existed
napi_value cancel(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  std::uint32_t id = 0;
  if (!call.started() || !call.toId(0, id)) return call.refuse("expected a waiter's id");
  return call.boolean(call.environment().participant().asyncWaits().cancel(id));
}

// release(table, stripe, mode, back?): kNotHeld, kReleased or kReleasedAndReady. `back`: true if the acquisition failed
// or will wait again, so the next holder sees the same `abandoned`
napi_value release(napi_env env, napi_callback_info info) {
  const Call call(env, info, 4);
  Membership* const membership = call.toTable(0);
  std::uint32_t stripe = 0;
  Mode mode{};
  bool back = false;
  if (!membership || !call.toIndex(1, membership->table().stripes() - 1, stripe) ||
      !call.toMode(2, membership->table(), mode)) {
    return call.refuse("expected a table, a stripe and a mode");
  }
  if (call.has(3) && !call.toBoolean(3, back)) return call.refuse("expected a boolean");
  const Leave::How how = back ? Leave::How::kRollBack : Leave::How::kRelease;
  if (!membership->release(stripe, mode, how)) return call.integer(kNotHeld);
  const bool ready = membership->participant().asyncWaits().hasReady();
  return call.integer(ready ? kReleasedAndReady : kReleased);
}

// The caller's array for a batch of entries. `room` is the number of entries that fit; 0 if the argument is not an
// Int32Array.
struct Batch {
  explicit Batch(const Call& call) {
    std::size_t length = 0;
    if (call.started() && call.toInts(0, out, length))
      room = std::min<std::size_t>(kBatch, length / kEntryInts);
  }
  void set(std::size_t index, std::uint32_t id, std::int32_t detail) {
    out[kEntryInts * index + kEntryId] = static_cast<std::int32_t>(id);
    out[kEntryInts * index + kEntryDetail] = detail;
  }

  std::int32_t* out = nullptr;
  std::size_t room = 0;
};

napi_value refuseBatch(const Call& call) {
  return call.refuse("expected an Int32Array with room for an entry");
}

// takeGrants(out): the number of entries, plus kMore. Each entry in `out` has a waiter's id and a detail (detailOf)
napi_value takeGrants(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  Batch batch(call);
  if (batch.room == 0) return refuseBatch(call);
  std::array<AsyncWaits::Granted, kBatch> grants;
  const std::size_t count = call.environment().participant().asyncWaits().take(grants.data(), batch.room);
  for (std::size_t i = 0; i < count; ++i) batch.set(i, grants[i].id, detailOf(grants[i]));
  return call.batch(count, batch.room);
}

// expire(out): the number of entries, plus kMore. Each entry in `out` has a waiter's id, and the stripe that was not
// available
napi_value expire(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  Batch batch(call);
  if (batch.room == 0) return refuseBatch(call);
  std::array<AsyncWaits::Expired, kBatch> expired;
  const std::size_t count = call.environment().participant().asyncWaits().expire(expired.data(), batch.room);
  for (std::size_t i = 0; i < count; ++i)
    batch.set(i, expired[i].id, static_cast<std::int32_t>(expired[i].stripe));
  return call.batch(count, batch.room);
}

// revokeIdleGrants(): revokes grants and designations that other threads do not collect, if a waiter of this thread
// waits for the stripe
napi_value revokeIdleGrants(napi_env env, napi_callback_info info) {
  const Call call(env, info, 0);
  if (!call.started()) return call.refuse("not started");
  call.environment().participant().asyncWaits().revokeIdleGrants();
  return nullptr;
}

// fairIn(table, stripe): milliseconds until the barging period of the stripe's queue ends; negative if it has ended
napi_value fairIn(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  Membership* const membership = call.toTable(0);
  std::uint32_t stripe = 0;
  if (!membership || !call.toIndex(1, membership->table().stripes() - 1, stripe))
    return call.refuse("expected an open table and a stripe");
  return call.number(toMilliseconds(membership->table().fairIn(stripe)));
}

// nextDeadline(): milliseconds until the earliest deadline; 0 if it has passed, Infinity without deadlines
napi_value nextDeadline(napi_env env, napi_callback_info info) {
  const Call call(env, info, 0);
  if (!call.started()) return call.refuse("not started");
  const Deadline deadline = call.environment().participant().asyncWaits().nextDeadline();
  if (deadline.isNever()) return call.number(std::numeric_limits<double>::infinity());
  return call.number(std::max(0.0, toMilliseconds(deadline.point() - now())));
}

// keepAlive(alive): sets whether acquisitions keep the event loop alive
napi_value keepAlive(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  bool alive = false;
  if (!call.started() || !call.toBoolean(0, alive)) return call.refuse("expected a boolean");
  call.environment().keepAlive(env, Environment::Reason::kAcquisitions, alive);
  return nullptr;
}

}  // namespace

void addAcquisitions(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "acquireSync", acquireSync);
  addFunction(env, exports, "acquireAsync", acquireAsync);
  addFunction(env, exports, "tryEnter", tryEnter);
  addFunction(env, exports, "cancel", cancel);
  addFunction(env, exports, "release", release);
  addFunction(env, exports, "takeGrants", takeGrants);
  addFunction(env, exports, "expire", expire);
  addFunction(env, exports, "revokeIdleGrants", revokeIdleGrants);
  addFunction(env, exports, "fairIn", fairIn);
  addFunction(env, exports, "nextDeadline", nextDeadline);
  addFunction(env, exports, "keepAlive", keepAlive);
}

}  // namespace stripelock
