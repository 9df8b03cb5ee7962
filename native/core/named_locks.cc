#include "core/named_locks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/named_client.h"
#include "core/participant.h"
#include "core/wake_set.h"

namespace stripelock {

struct NamedCopy {
  std::uint64_t manager = 0;
  std::vector<NamedLocks::NameInfo> names;
};

NamedLocks& NamedLocks::instance() {
  // Never destroyed: threads may outlive static destruction.
  static NamedLocks& locks = *new NamedLocks();
  return locks;
}

NamedAnswer NamedLocks::request(NamedRequest& request, const KeyView& key, NamedHow how) {
  // Declared first, so that it is sent last (keeps W7).
  WakeSet wakes(&request.client.participant());
  NamedShard& shard = shards_[shardOf<kShards>(key)];
  STRIPELOCK_SEAM("named request: before the shard");
  const ShortLock lock = lockToChange(shard);
  NamedRecord* record = shard.records.find(key);
  const bool isNew = !record;
  if (isNew) {
    record = &add(shard, key);
  } else if (how == NamedHow::kSteal) {
    // mutant: W1-thief-joins
    rob(*record, wakes);
  }
  request.shard = &shard;
  // Past those that are pending goes only a thief, which admits nobody (keeps W1, W2).
  if (isNew || how == NamedHow::kSteal || (record->pending.empty() && record->isCompatible(request.mode))) {
    request.record = record;
    request.state = NamedRequest::State::kHeld;
    record->held.pushBack(request);
    return NamedAnswer::kHeld;
  }
  if (how == NamedHow::kIfAvailable) return NamedAnswer::kUnavailable;
  request.record = record;
  record->pending.pushBack(request);
  return NamedAnswer::kPending;
}

bool NamedLocks::cancel(NamedRequest& request) {
  WakeSet wakes(&request.client.participant());
  STRIPELOCK_SEAM("named cancel: before the shard");
  const ShortLock lock = lockToChange(*request.shard);
  if (request.state != NamedRequest::State::kPending) return false;
  // mutant: W2-cancel-lets-nobody-in
  remove(request, wakes);
  return true;
}

bool NamedLocks::end(NamedRequest& request) {
  WakeSet wakes(&request.client.participant());
  STRIPELOCK_SEAM("named end: before the shard");
  const ShortLock lock = lockToChange(*request.shard);
  // If it was stolen, the record is another's by now, or gone (keeps W3).
  const bool kept = request.state != NamedRequest::State::kStolen;
  // mutant: W3-ends-stolen
  if (kept) remove(request, wakes);
  return kept;
}

void NamedLocks::awaitPushers() {
  for (NamedShard& shard : shards_) const ShortLock lock(shard.mutex);
}

NamedRecord& NamedLocks::add(NamedShard& shard, const KeyView& key) {
  std::unique_ptr<NamedRecord> record = std::move(shard.spare);
  if (record) {
    record->key.assign(key);
  } else {
    record = std::make_unique<NamedRecord>(key);
  }
  return shard.records.add(std::move(record));
}

void NamedLocks::rob(NamedRecord& record, WakeSet& wakes) {
  while (NamedRequest* const holder = record.held.first()) {
    record.held.remove(*holder);
    holder->record = nullptr;
    // After the push its thread may free it, but not the client: see NamedLocks::awaitPushers (keeps W5).
    NamedClient& robbed = holder->client;
    STRIPELOCK_SEAM("named steal: before the ready list");
    robbed.push(*holder, NamedRequest::State::kStolen);
    STRIPELOCK_SEAM("named steal: after the ready list");
    wakes.addReady(robbed.participant());
  }
}

void NamedLocks::remove(NamedRequest& request, WakeSet& wakes) {
  NamedShard& shard = *request.shard;
  NamedRecord& record = *request.record;
  record.listOf(request).remove(request);
  request.record = nullptr;
  // What left the queue may have been all that others waited behind, so this runs for the pending, too (keeps W2).
  while (NamedRequest* const first = record.pending.first()) {
    if (!record.isCompatible(first->mode)) return;
    record.pending.remove(*first);
    record.held.pushBack(*first);
    STRIPELOCK_SEAM("named grant: before the ready list");
    first->client.push(*first, NamedRequest::State::kHeld);
    // The shard is locked, so nobody can steal it, and its thread cannot end it.
    // mutant: W7-grant-wakes-nobody
    wakes.addReady(first->client.participant());
  }
  // Keeps W4.
  // mutant: W4-drops-held
  if (!record.held.empty()) return;
  std::unique_ptr<NamedRecord> dropped = shard.records.remove(record);
  if (!shard.spare && dropped->key.isInPlace()) shard.spare = std::move(dropped);
}

ShortLock NamedLocks::lockToChange(NamedShard& shard) {
  ShortLock lock(shard.mutex);
  // mutant: W8-changes-before-copy
  copyIfAsked(shard);
  return lock;
}

void NamedLocks::copyIfAsked(NamedShard& shard) {
  if (!shard.asked) return;
  NamedCopy& copy = *std::exchange(shard.asked, nullptr);
  shard.records.forEach([&](const NamedRecord& record) {
    const KeyView key = record.key.view();
    if (NamedKey::managerOf(key) != copy.manager) return;
    NameInfo& info = copy.names.emplace_back(NameInfo{.name = NamedKey::nameOf(key), .requests = {}});
    for (const NamedRecord::List* const list : {&record.held, &record.pending}) {
      for (const NamedRequest* request = list->first(); request; request = list->after(*request)) {
        info.requests.push_back({.mode = request->mode,
                                 .held = list == &record.held,
                                 .threadId = request->client.participant().threadId()});
      }
    }
  });
}

std::vector<NamedLocks::NameInfo> NamedLocks::query(std::uint64_t manager) {
  const Lock only(queries_);
  std::array<NamedCopy, kShards> copies;
  // All at once: a request that moves from name to name must not be seen twice, or nowhere (keeps W8).
  for (NamedShard& shard : shards_) shard.mutex.lock();
  for (std::size_t i = 0; i < kShards; ++i) {
    copies[i].manager = manager;
    shards_[i].asked = &copies[i];
  }
  for (NamedShard& shard : shards_) shard.mutex.unlock();
  std::vector<NameInfo> all;
  for (std::size_t i = 0; i < kShards; ++i) {
    STRIPELOCK_SEAM("named query: at a shard");
    {
      const ShortLock lock(shards_[i].mutex);
      copyIfAsked(shards_[i]);
    }
    std::move(copies[i].names.begin(), copies[i].names.end(), std::back_inserter(all));
  }
  return all;
}

std::size_t NamedLocks::size() {
  std::size_t count = 0;
  for (NamedShard& shard : shards_) {
    const ShortLock lock(shard.mutex);
    count += shard.records.size();
  }
  return count;
}

}  // namespace stripelock
