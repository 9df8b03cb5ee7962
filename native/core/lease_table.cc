#include "core/lease_table.h"

#include <algorithm>

#include "core/participant.h"
#include "core/platform.h"
#include "core/wake_set.h"

namespace stripelock {

namespace {

// Called under the shard's lock, so that successive operations on one key never see the clock go back.
Nanoseconds resolve(Nanoseconds at) { return at == LeaseTable::kElapsed ? elapsed() : at; }

}  // namespace

LeaseTable::Grant LeaseTable::tryAcquire(const Claim& claim, Nanoseconds ttl, std::string_view info,
                                         const LeaseWatches& taker) {
  Shard& shard = shardFor(claim.key);
  Lock lock(shard.mutex);
  const Nanoseconds at = resolve(claim.at);
  const bool due = tend(shard, at);
  Entry* entry = shard.entries.find(claim.key);
  Grant granted;
  if (entry && entry->expiresAt > at && entry->owner != claim.owner) {
    granted.retryAfter = entry->expiresAt - at;
  } else {
    granted.retryAfter = passTurn(shard, claim.key, taker);
  }
  if (granted.retryAfter == 0) {
    if (entry) {
      setTime(shard, *entry, at + ttl);
    } else {
      entry = &add(shard, claim.key, at + ttl);
    }
    entry->owner = claim.owner;
    entry->info = info;
    entry->token = nextToken_.fetch_add(1);  // keeps L1
    granted.token = entry->token;
  }
  lock.unlock();
  if (due) sweepOther(at);
  return granted;
}

Nanoseconds LeaseTable::passTurn(Shard& shard, const KeyView& key, const LeaseWatches& taker) {
  Waiting* const queue = shard.waiting.empty() ? nullptr : shard.waiting.find(key);
  if (!queue) return 0;
  std::vector<LeaseWatch*>& watches = queue->watches;
  const bool first = &watches.front()->owner == &taker;
  const Nanoseconds left = queue->turnEnds - now();
  if (!first && left > 0) return left;
  // A thread that takes its turn, or lets it pass, moves to the end of the queue.
  if (first || queue->turnEnds != 0) std::rotate(watches.begin(), watches.begin() + 1, watches.end());
  queue->turnEnds = 0;
  return 0;
}

bool LeaseTable::renew(const Claim& claim, Nanoseconds ttl, const std::string_view* info) {
  Shard& shard = shardFor(claim.key);
  Lock lock(shard.mutex);
  const Nanoseconds at = resolve(claim.at);
  const bool due = tend(shard, at);
  Entry* const entry = heldBy(shard, claim, 0, at);
  if (entry) {
    entry->expiresAt = std::max(entry->expiresAt, at + ttl);  // keeps L3
    if (info) entry->info = *info;
  }
  lock.unlock();
  if (due) sweepOther(at);
  return entry != nullptr;
}

bool LeaseTable::keep(const Claim& claim, std::uint64_t token, Nanoseconds ttl, const LeaseWatches* self) {
  // Destroyed after `lock`, so it sends its wakes with the shard unlocked.
  WakeSet wakes(self ? &self->participant() : nullptr);
  Shard& shard = shardFor(claim.key);
  const Lock lock(shard.mutex);
  const Nanoseconds at = resolve(claim.at);
  Entry* const entry = heldBy(shard, claim, token, at);
  if (!entry) return false;
  setTime(shard, *entry, at + ttl);
  callWatches(shard, claim.key, false, wakes);
  return true;
}

bool LeaseTable::release(const Claim& claim, std::uint64_t token, const LeaseWatches* self) {
  // Destroyed after `lock`, so it sends its wakes with the shard unlocked.
  WakeSet wakes(self ? &self->participant() : nullptr);
  Shard& shard = shardFor(claim.key);
  const Lock lock(shard.mutex);
  const Nanoseconds at = resolve(claim.at);
  Entry* const entry = heldBy(shard, claim, token, at);
  if (entry) {
    callWatches(shard, claim.key, true, wakes);
    erase(shard, *entry);
  }
  sweep(shard, at, kSweepOwn);
  return entry != nullptr;
}

void LeaseTable::callWatches(Shard& shard, const KeyView& key, bool turn, WakeSet& wakes) {
  Waiting* const queue = shard.waiting.empty() ? nullptr : shard.waiting.find(key);
  if (!queue) return;
  // Wakes every thread: the others must learn how long the first one's turn lasts.
  if (turn) queue->turnEnds = now() + kTurn;
  for (LeaseWatch* const watch : queue->watches) {
    watch->owner.push(*watch);
    wakes.addReady(watch->owner.participant());
  }
}

std::optional<LeaseTable::Info> LeaseTable::inspect(const KeyView& key, Nanoseconds at) {
  Shard& shard = shardFor(key);
  const Lock lock(shard.mutex);
  at = resolve(at);
  const Entry* const entry = held(shard, key, at);
  if (!entry) return std::nullopt;
  return Info{
      .owner = entry->owner, .token = entry->token, .remaining = entry->expiresAt - at, .info = entry->info};
}

std::size_t LeaseTable::size() const {
  std::size_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.size.load(std::memory_order_relaxed);
  return sum;
}

bool LeaseTable::sweepAll(Nanoseconds at) {
  for (Shard& shard : shards_) {
    const Lock lock(shard.mutex);
    sweep(shard, resolve(at), std::numeric_limits<unsigned>::max());
  }
  return size() == 0;
}

void LeaseTable::link(LeaseWatch& watch) {
  const KeyView key = watch.key.view();
  Shard& shard = shardFor(key);
  const Lock lock(shard.mutex);
  Waiting* queue = shard.waiting.find(key);
  if (!queue) queue = &shard.waiting.add(std::make_unique<Waiting>(key));
  queue->watches.push_back(&watch);
}

void LeaseTable::unlink(LeaseWatch& watch) {
  const KeyView key = watch.key.view();
  Shard& shard = shardFor(key);
  const Lock lock(shard.mutex);
  Waiting* const queue = shard.waiting.find(key);
  std::vector<LeaseWatch*>& watches = queue->watches;
  watches.erase(std::find(watches.begin(), watches.end(), &watch));
  if (watches.empty()) shard.waiting.remove(*queue);
}

LeaseTable::Entry* LeaseTable::held(Shard& shard, const KeyView& key, Nanoseconds at) {
  Entry* const entry = shard.entries.find(key);
  return entry && entry->expiresAt > at ? entry : nullptr;
}

LeaseTable::Entry* LeaseTable::heldBy(Shard& shard, const Claim& claim, std::uint64_t token, Nanoseconds at) {
  Entry* const entry = held(shard, claim.key, at);
  // mutant: lease-released-without-token
  const bool isOwn = entry && entry->owner == claim.owner && (token == 0 || entry->token == token);
  return isOwn ? entry : nullptr;
}

LeaseTable::Entry& LeaseTable::add(Shard& shard, const KeyView& key, Nanoseconds expiresAt) {
  Entry& entry = shard.entries.add(std::make_unique<Entry>(key));
  entry.expiresAt = expiresAt;
  shard.times.add(entry, expiresAt);  // keeps L2
  shard.size.store(shard.entries.size(), std::memory_order_relaxed);
  return entry;
}

void LeaseTable::setTime(Shard& shard, Entry& entry, Nanoseconds expiresAt) {
  entry.expiresAt = expiresAt;
  if (expiresAt < shard.times.rankOf(entry)) shard.times.move(entry, expiresAt);  // keeps L3
}

void LeaseTable::erase(Shard& shard, Entry& entry) {
  shard.times.remove(entry);
  shard.entries.remove(entry);  // keeps L2
  shard.size.store(shard.entries.size(), std::memory_order_relaxed);
}

void LeaseTable::sweep(Shard& shard, Nanoseconds at, unsigned most) {
  for (unsigned i = 0; i < most && !shard.times.empty() && shard.times.leastRank() <= at; ++i) {
    Entry& entry = shard.times.least();
    if (entry.expiresAt <= at) {
      erase(shard, entry);
    } else {
      shard.times.move(entry, entry.expiresAt);
    }
  }
}

void LeaseTable::sweepOther(Nanoseconds at) {
  Shard& shard = shards_[sweepNext_.fetch_add(1, std::memory_order_relaxed) % kShards];
  const Lock lock(shard.mutex, std::try_to_lock);
  // The thread that has it locked sweeps it.
  if (lock.owns_lock()) sweep(shard, at, kSweepOther);
}

bool LeaseTable::tend(Shard& shard, Nanoseconds at) {
  sweep(shard, at, kSweepOwn);
  return ++shard.operations % kSweepEvery == 0;
}

}  // namespace stripelock
