#include "node/acquisitions.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/inspect.h"
#include "node/arguments.h"
#include "node/call.h"

namespace stripelock {

namespace {

// Stripes that there is room for without an allocation.
constexpr std::size_t kFewStripes = 64;

Mode modeOfFlag(bool shared) { return shared ? Mode::kShared : Mode::kExclusive; }

struct Acquire {
  Membership* membership = nullptr;
  Request request{};
  std::string note;
  // A copy: another thread may write to the caller's, and so may JavaScript that an interrupt runs.
  std::array<std::uint32_t, kFewStripes> few;
  std::vector<std::uint32_t> many;

  std::uint32_t* room(std::size_t count) {
    if (count <= few.size()) return few.data();
    many.resize(count);
    return many.data();
  }
};

// (table, stripes, count, taken, shared, timeout, note?). False: an exception is pending.
bool readAcquire(const Call& call, Acquire& acquire) {
  acquire.membership = call.toTable(0);
  Request& request = acquire.request;
  bool shared = false;
  bool valid = acquire.membership && call.toIndex(2, kMaxStripes, request.count) &&
               call.toIndex(3, request.count, request.taken) && call.toBoolean(4, shared) &&
               call.toDouble(5, request.timeout);
  request.mode = modeOfFlag(shared);
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
  // The core relies on the order, and indexes by the values.
  valid = valid && request.stripes[request.count - 1] < acquire.membership->table().stripes() &&
          (!isCounted(request.mode) || acquire.membership->hasShares());
  for (std::uint32_t i = 1; valid && i < request.count; ++i)
    valid = request.stripes[i - 1] < request.stripes[i];
  if (!valid) {
    invalidArgument(call.env(),
                    "expected a table, its stripes in rising order, how many, how many of them are taken, "
                    "a boolean and a number");
    return false;
  }
  if (call.toText(6, acquire.note)) request.note = &acquire.note;
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

Napi::Object deadlockOutcome(Napi::Env env, const std::vector<Blocked>& cycle) {
  std::vector<std::int32_t> threads;
  std::vector<std::int32_t> stripes;
  for (const Blocked& blocked : cycle) {
    threads.push_back(blocked.threadId);
    stripes.push_back(static_cast<std::int32_t>(blocked.stripe));
  }
  Napi::Object object = outcome(env, "deadlock");
  object.Set("threads", toArray(env, threads));
  object.Set("stripes", toArray(env, stripes));
  return object;
}

// acquireSync(table, stripes, count, taken, shared, timeout, note?): 0 granted, 1 granted and abandoned, an Outcome,
// or undefined where this thread, or the script that it runs, is being ended. `stripes` is the only one, or an
// Int32Array that begins with them.
napi_value acquireSync(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  Acquire acquire;
  if (!readAcquire(call, acquire)) return nullptr;
  Environment& environment = call.environment();
  // Called by what interrupts a blocked call of this same thread, which cannot go on before this one ends.
  if (environment.blocked()) acquire.request.timeout = 0;
  const SyncOutcome result = environment.acquireSync(env, *acquire.membership, acquire.request);
  switch (result.status) {
    case SyncOutcome::Status::kGranted:
      return call.number(result.abandoned ? 1 : 0);
    case SyncOutcome::Status::kTimedOut:
      return timeoutOutcome(env, acquire.membership->table(), result.stripe);
    case SyncOutcome::Status::kDeadlock:
      return deadlockOutcome(env, result.cycle);
    case SyncOutcome::Status::kInterrupted:
      break;
  }
  // It may not even make an object any more.
  return nullptr;
}

// acquireAsync, with the same arguments: -1 granted, -2 granted and abandoned, an Outcome, or the waiter's id
napi_value acquireAsync(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  Acquire acquire;
  if (!readAcquire(call, acquire)) return nullptr;
  const AsyncWaits::Started started =
      call.environment().participant().asyncWaits().start(*acquire.membership, acquire.request);
  switch (started.status) {
    case AsyncStart::kGranted:
      return call.number(started.abandoned ? -2 : -1);
    case AsyncStart::kTimedOut:
      return timeoutOutcome(env, acquire.membership->table(), started.stripe);
    case AsyncStart::kPending:
      break;
  }
  AsyncWaits& waits = call.environment().participant().asyncWaits();
  // A blocked thread's waiters hold nothing. See acquireSync.
  if (call.environment().blocked()) waits.reclaim();
  return call.number(static_cast<std::int32_t>(started.id));
}

// cancel(id): whether there was such a waiter
Napi::Value cancel(const Napi::CallbackInfo& info) {
  Environment& environment = Environment::of(info.Env());
  if (!environment.started() || !info[0].IsNumber())
    return invalidArgument(info.Env(), "expected a waiter's id");
  const bool cancelled =
      environment.participant().asyncWaits().cancel(info[0].As<Napi::Number>().Uint32Value());
  return Napi::Boolean::New(info.Env(), cancelled);
}

// release(table, stripe, shared): 0 not held, 1 released, 2 released and take() has something
napi_value release(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  Membership* const membership = call.toTable(0);
  std::uint32_t stripe = 0;
  bool shared = false;
  if (!membership || !call.toIndex(1, membership->table().stripes() - 1, stripe) ||
      !call.toBoolean(2, shared)) {
    return invalidArgument(env, "expected a table, a stripe and a boolean");
  }
  if (!membership->release(stripe, modeOfFlag(shared))) return call.number(0);
  return call.number(membership->participant().asyncWaits().hasReady() ? 2 : 1);
}

// take(out): how many; out gets pairs of a waiter's id and whether it was told of an abandoned stripe
napi_value take(napi_env env, napi_callback_info info) {
  const Call call(env, info);
  std::int32_t* out = nullptr;
  std::size_t length = 0;
  if (!call.started() || !call.toInts(0, out, length)) return invalidArgument(env, "expected an Int32Array");
  std::array<AsyncWaits::Granted, 128> granted;
  const std::size_t room = std::min(granted.size(), length / 2);
  const std::size_t count = call.environment().participant().asyncWaits().take(granted.data(), room);
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = static_cast<std::int32_t>(granted[i].id);
    out[2 * i + 1] = granted[i].abandoned ? 1 : 0;
  }
  return call.number(static_cast<std::int32_t>(count));
}

// expire(out): how many; out gets pairs of a waiter's id and the stripe that it could not have
Napi::Value expire(const Napi::CallbackInfo& info) {
  Environment& environment = Environment::of(info.Env());
  if (!environment.started() || !isInt32Array(info[0]))
    return invalidArgument(info.Env(), "expected an Int32Array");
  auto out = info[0].As<Napi::Int32Array>();
  std::array<AsyncWaits::Expired, 128> expired;
  const std::size_t room = std::min(expired.size(), out.ElementLength() / 2);
  const std::size_t count = environment.participant().asyncWaits().expire(expired.data(), room);
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = static_cast<std::int32_t>(expired[i].id);
    out[2 * i + 1] = static_cast<std::int32_t>(expired[i].stripe);
  }
  return Napi::Number::New(info.Env(), static_cast<double>(count));
}

// lookForIdle(): takes back what this thread's waiters wait for, where others were granted it and do not come for it
napi_value lookForIdle(napi_env env, napi_callback_info info) {
  const Call call(env, info, 0);
  if (!call.started()) return invalidArgument(env, "not started");
  call.environment().participant().asyncWaits().lookForIdle();
  return nullptr;
}

}  // namespace

void addAcquisitions(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "acquireSync", acquireSync);
  addFunction(env, exports, "acquireAsync", acquireAsync);
  addFunction(env, exports, "release", release);
  addFunction(env, exports, "take", take);
  addFunction(env, exports, "lookForIdle", lookForIdle);
  exports.Set("cancel", Napi::Function::New<cancel>(env, "cancel"));
  exports.Set("expire", Napi::Function::New<expire>(env, "expire"));
}

}  // namespace stripelock
