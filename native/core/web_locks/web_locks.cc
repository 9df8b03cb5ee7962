#include "core/web_locks/web_locks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/table/participant.h"
#include "core/table/wake_set.h"
#include "core/web_locks/web_lock_client.h"

namespace stripelock {

struct WebLockCopy {
  std::uint64_t manager = 0;
  std::vector<WebLocks::NameInfo> names;
};

WebLocks& WebLocks::instance() {
  // Never destroyed: threads may outlive static destruction.
  static WebLocks& locks = *new WebLocks();
  return locks;
}

WebLockAnswer WebLocks::request(WebLockRequest& request, const KeyView& key, WebLockHow how) {
  // Declared before `lock`, so it sends its wakes after the shard is unlocked.
  WakeSet wakes(&request.client.participant());
  WebLockShard& shard = shards_[shardOf<kShards>(key)];
  STRIPELOCK_SEAM("web lock request: before the shard");
  const ShortLock lock = lockToChange(shard);
  WebLockRecord* record = shard.records.find(key);
  const bool isNew = !record;
  if (isNew) {
    record = &add(shard, key);
  } else if (how == WebLockHow::kSteal) {
    // mutant: W1-thief-joins
    rob(*record, wakes);
  }
  request.shard = &shard;
  // Only a steal overtakes pending requests, and it admits no other holder (preserves W1, W2).
  if (isNew || how == WebLockHow::kSteal || (record->pending.empty() && record->isCompatible(request.mode))) {
    request.record = record;
    request.state = WebLockRequest::State::kHeld;
    record->held.pushBack(request);
    return WebLockAnswer::kHeld;
  }
  if (how == WebLockHow::kIfAvailable) return WebLockAnswer::kUnavailable;
  request.record = record;
  record->pending.pushBack(request);
  return WebLockAnswer::kPending;
}

bool WebLocks::cancel(WebLockRequest& request) {
  WakeSet wakes(&request.client.participant());
  STRIPELOCK_SEAM("web lock cancel: before the shard");
  const ShortLock lock = lockToChange(*request.shard);
  if (request.state != WebLockRequest::State::kPending) return false;
  // mutant: W2-cancel-grants-none
  remove(request, wakes);
  return true;
}

bool WebLocks::end(WebLockRequest& request) {
  WakeSet wakes(&request.client.participant());
  STRIPELOCK_SEAM("web lock end: before the shard");
  const ShortLock lock = lockToChange(*request.shard);
  // If the request was stolen, its record belongs to other requests by now, or no longer exists (preserves W3).
  const bool kept = request.state != WebLockRequest::State::kStolen;
  // mutant: W3-ends-stolen
  if (kept) remove(request, wakes);
  return kept;
}

void WebLocks::awaitPushers() {
  for (WebLockShard& shard : shards_) const ShortLock lock(shard.mutex);
}

WebLockRecord& WebLocks::add(WebLockShard& shard, const KeyView& key) {
  std::unique_ptr<WebLockRecord> record = std::move(shard.spare);
  if (record) {
    record->key.assign(key);
  } else {
    record = std::make_unique<WebLockRecord>(key);
  }
  return shard.records.add(std::move(record));
}

void WebLocks::rob(WebLockRecord& record, WakeSet& wakes) {
  while (WebLockRequest* const holder = record.held.first()) {
    record.held.remove(*holder);
    holder->record = nullptr;
    // After the push, the holder's thread may free the request, but not the client: see awaitPushers() (preserves W4).
    WebLockClient& robbed = holder->client;
    STRIPELOCK_SEAM("web lock steal: before the ready list");
    robbed.push(*holder, WebLockRequest::State::kStolen);
    STRIPELOCK_SEAM("web lock steal: after the ready list");
    wakes.addReady(robbed.participant());
  }
}

void WebLocks::remove(WebLockRequest& request, WakeSet& wakes) {
  WebLockShard& shard = *request.shard;
  WebLockRecord& record = *request.record;
  record.listOf(request).remove(request);
  request.record = nullptr;
  // Removing a pending request can unblock those behind it, so this also runs after a cancellation (preserves W2).
  while (WebLockRequest* const first = record.pending.first()) {
    if (!record.isCompatible(first->mode)) return;
    record.pending.remove(*first);
    record.held.pushBack(*first);
    STRIPELOCK_SEAM("web lock grant: before the ready list");
    first->client.push(*first, WebLockRequest::State::kHeld);
    // The shard is locked, so the request cannot be stolen, and its thread cannot end it.
    // mutant: web-grant-without-wake
    wakes.addReady(first->client.participant());
  }
  // A name has a record only while it is held or waited for.
  // mutant: W3-drops-held
  if (!record.held.empty()) return;
  std::unique_ptr<WebLockRecord> dropped = shard.records.remove(record);
  if (!shard.spare && dropped->key.isInPlace()) shard.spare = std::move(dropped);
}

ShortLock WebLocks::lockToChange(WebLockShard& shard) {
  ShortLock lock(shard.mutex);
  // mutant: W6-changes-before-copy
  copyIfAsked(shard);
  return lock;
}

void WebLocks::copyIfAsked(WebLockShard& shard) {
  if (!shard.asked) return;
  WebLockCopy& copy = *std::exchange(shard.asked, nullptr);
  shard.records.forEach([&](const WebLockRecord& record) {
    const KeyView key = record.key.view();
    if (WebLockName::managerOf(key) != copy.manager) return;
    NameInfo& info = copy.names.emplace_back(NameInfo{.name = WebLockName::nameOf(key), .requests = {}});
    for (const WebLockRecord::List* const list : {&record.held, &record.pending}) {
      for (const WebLockRequest* request = list->first(); request; request = list->after(*request)) {
        info.requests.push_back({.mode = request->mode,
                                 .held = list == &record.held,
                                 .threadId = request->client.participant().threadId()});
      }
    }
  });
}

std::vector<WebLocks::NameInfo> WebLocks::query(std::uint64_t manager) {
  const Lock only(queries_);
  std::array<WebLockCopy, kShards> copies;
  // Locks all shards together, because a request that moves from name to name must be seen exactly once (preserves W6).
  for (WebLockShard& shard : shards_) shard.mutex.lock();
  for (std::size_t i = 0; i < kShards; ++i) {
    copies[i].manager = manager;
    shards_[i].asked = &copies[i];
  }
  for (WebLockShard& shard : shards_) shard.mutex.unlock();
  std::vector<NameInfo> all;
  for (std::size_t i = 0; i < kShards; ++i) {
    STRIPELOCK_SEAM("web lock query: at a shard");
    {
      const ShortLock lock(shards_[i].mutex);
      copyIfAsked(shards_[i]);
    }
    std::move(copies[i].names.begin(), copies[i].names.end(), std::back_inserter(all));
  }
  return all;
}

std::size_t WebLocks::size() {
  std::size_t count = 0;
  for (WebLockShard& shard : shards_) {
    const ShortLock lock(shard.mutex);
    count += shard.records.size();
  }
  return count;
}

}  // namespace stripelock
