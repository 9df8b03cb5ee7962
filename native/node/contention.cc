#include "node/contention.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/table/contention_profile.h"
#include "node/call.h"

namespace stripelock {

namespace {

// startProfile(threshold, every, names): false if another profile is running. `threshold` and `every` are in
// milliseconds. Without names, the profile covers all locks
napi_value startProfile(napi_env env, napi_callback_info info) {
  const Call call(env, info, 3);
  double threshold = 0;
  double every = 0;
  if (!call.started() || !call.toDouble(0, threshold) || !call.toDouble(1, every) || !(every > 0) ||
      !Napi::Value(env, call.at(2)).IsArray()) {
    return call.refuse("expected two numbers of milliseconds and names");
  }
  const Napi::Array list(env, call.at(2));
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    const Napi::Value name = list.Get(i);
    // The getter of this element has thrown an exception.
    if (name.IsEmpty()) return nullptr;
    if (!name.IsString()) return call.refuse("expected names");
    names.push_back(name.As<Napi::String>().Utf8Value());
  }
  const bool started = ContentionProfile::instance().start(threshold, every, std::move(names));
  if (started) call.environment().profiles = true;
  return call.boolean(started);
}

// stopProfile(): stops the profile that this thread started
napi_value stopProfile(napi_env env, napi_callback_info info) {
  const Call call(env, info, 0);
  if (std::exchange(call.environment().profiles, false)) ContentionProfile::instance().stop();
  return nullptr;
}

// drawn(): whether a profile records this thread's last release or sync wait, as the number of a Draw
napi_value drawn(napi_env env, napi_callback_info info) {
  const Call call(env, info, 0);
  if (!call.started()) return call.refuse("not started");
  return call.integer(
      static_cast<std::int32_t>(std::exchange(call.environment().participant().draw, Draw::kNone)));
}

// draw(waited): decides at random whether a wait of this many milliseconds is recorded; returns a Draw as a number
napi_value draw(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  double waited = 0;
  if (!call.toDouble(0, waited)) return call.refuse("expected milliseconds");
  const auto time = static_cast<Nanoseconds>(waited * kNanosecondsPerMillisecond);
  return call.integer(static_cast<std::int32_t>(ContentionProfile::instance().draw(time)));
}

// sampling(): the length, in milliseconds, from which a wait is always recorded
napi_value sampling(napi_env env, napi_callback_info info) {
  const Call call(env, info, 0);
  return call.number(toMilliseconds(ContentionProfile::instance().every()));
}

// lockId(table): the number of the table's lock, unique in the process
napi_value lockId(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  const Membership* const membership = call.toTable(0);
  if (!membership) return call.refuse("expected an open table");
  return call.number(static_cast<double>(membership->table().id()));
}

// beginLeaseWait(place, waited): registers a wait for a lease that began `waited` milliseconds ago; returns a number for
// endLeaseWait
napi_value beginLeaseWait(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  std::string place;
  double waited = 0;
  if (!call.started() || !call.toText(0, place) || !call.toDouble(1, waited))
    return call.refuse("expected a string and milliseconds");
  const auto time = static_cast<Nanoseconds>(waited * kNanosecondsPerMillisecond);
  const void* const thread = &call.environment();
  return call.number(
      static_cast<double>(ContentionProfile::instance().beginLeaseWait(thread, place, now() - time)));
}

// endLeaseWait(wait): whether a profile records the wait, as the number of a Draw
napi_value endLeaseWait(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  double wait = 0;
  if (!call.toDouble(0, wait) || !(wait > 0)) return call.refuse("expected a wait");
  const Draw draw = ContentionProfile::instance().endLeaseWait(static_cast<std::uint64_t>(wait));
  return call.integer(static_cast<std::int32_t>(draw));
}

// drawLeaseRelease(place): whether a profile records a release of a lease, as the number of a Draw
napi_value drawLeaseRelease(napi_env env, napi_callback_info info) {
  const Call call(env, info, 1);
  std::string place;
  if (!call.toText(0, place)) return call.refuse("expected a string");
  return call.integer(static_cast<std::int32_t>(ContentionProfile::instance().drawLeaseRelease(place)));
}

// addRecord(text, draw)
napi_value addRecord(napi_env env, napi_callback_info info) {
  const Call call(env, info, 2);
  std::string record;
  std::uint32_t draw = 0;
  if (!call.toText(0, record) || !call.toIndex(1, std::numeric_limits<std::uint8_t>::max(), draw))
    return call.refuse("expected a string and what was drawn");
  ContentionProfile::instance().add(std::move(record), static_cast<Draw>(draw));
  return nullptr;
}

// takeRecords(): the records that all threads have added, and then the number of records that were left out
napi_value takeRecords(napi_env env, napi_callback_info) {
  const ContentionProfile::Taken taken = ContentionProfile::instance().take();
  Napi::Array list = Napi::Array::New(env, taken.records.size() + 1);
  std::uint32_t at = 0;
  for (const std::string& record : taken.records) list.Set(at++, Napi::String::New(env, record));
  list.Set(at, Napi::Number::New(env, static_cast<double>(taken.leftOut)));
  return list;
}

}  // namespace

void addContention(Napi::Env env, Napi::Object exports) {
  addFunction(env, exports, "startProfile", startProfile);
  addFunction(env, exports, "stopProfile", stopProfile);
  addFunction(env, exports, "drawn", drawn);
  addFunction(env, exports, "draw", draw);
  addFunction(env, exports, "sampling", sampling);
  addFunction(env, exports, "lockId", lockId);
  addFunction(env, exports, "beginLeaseWait", beginLeaseWait);
  addFunction(env, exports, "endLeaseWait", endLeaseWait);
  addFunction(env, exports, "drawLeaseRelease", drawLeaseRelease);
  addFunction(env, exports, "addRecord", addRecord);
  addFunction(env, exports, "takeRecords", takeRecords);
}

}  // namespace stripelock
