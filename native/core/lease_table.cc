#include "core/lease_table.h"

#include <algorithm>
#include <cstring>

#include "core/participant.h"
#include "core/wake_set.h"

namespace stripelock {

namespace {

// Called under the shard's lock, so that successive operations on one key never see the steady clock go back.
Nanoseconds resolve(Nanoseconds at) { return at == LeaseTable::kSteady ? now() : at; }
Nanoseconds resolveRecent(Nanoseconds at) { return at == LeaseTable::kSteady ? recently() : at; }

}  // namespace

LeaseTable::Grant LeaseTable::acquire(const Claim& claim, Nanoseconds ttl, const LeaseWatches* taker) {
  Shard& shard = shardFor(claim.key);
  Lock lock(shard.mutex);
  const Nanoseconds at = resolve(claim.at);
  const bool due = tend(shard, at);
  Entry* const entry = shard.entries.find(claim.key);
  Nanoseconds retryAfter = 0;
  if (isHeld(entry, at) && !isOwn(*entry, claim)) {
    retryAfter = entry->expiresAt - at;
  } else if (taker) {
    retryAfter = passTurn(shard, claim.key, *taker);
  }
  const Grant granted =
      retryAfter > 0 ? Grant{.retryAfter = retryAfter} : grant(shard, entry, claim, at, ttl);
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
  // A thread that takes its turn, or has let it pass, goes to the end of the queue.
  if (first || queue->turnEnds != 0) std::rotate(watches.begin(), watches.begin() + 1, watches.end());
  queue->turnEnds = 0;
  return 0;
}

bool LeaseTable::renew(const Claim& claim, Nanoseconds ttl, const LeaseWatches* self) {
  // Destroyed after `lock`, so it sends its wakes with the shard unlocked.
  WakeSet wakes(self ? &self->participant() : nullptr);
  Shard& shard = shardFor(claim.key);
  Lock lock(shard.mutex);
  const Nanoseconds at = resolve(claim.at);
  const bool due = tend(shard, at);
  Entry* const entry = shard.entries.find(claim.key);
  const bool own = isHeldBy(entry, claim, at);
  if (own) {
    const bool sooner = at + ttl < entry->expiresAt;
    extend(shard, *entry, at + ttl);
    // Those who wait for the key wait until it expires, and must know that this comes earlier.
    if (sooner && !shard.waiting.empty()) {
      if (Waiting* const queue = shard.waiting.find(claim.key)) callWatches(*queue, wakes);
    }
  }
  lock.unlock();
  if (due) sweepOther(at);
  return own;
}

bool LeaseTable::setInfo(const Claim& claim, std::string_view info) {
  Shard& shard = shardFor(claim.key);
  const Lock lock(shard.mutex);
  Entry* const entry = shard.entries.find(claim.key);
  if (!isHeldBy(entry, claim, resolve(claim.at))) return false;
  entry->info = info.empty() ? nullptr : std::make_unique<std::string>(info);
  return true;
}

void LeaseTable::callWatches(Waiting& queue, WakeSet& wakes) {
  for (LeaseWatch* const watch : queue.watches) {
    watch->owner.push(*watch);
    wakes.addReady(watch->owner.participant());
  }
}

bool LeaseTable::keep(const Claim& claim, Nanoseconds ttl, Nanoseconds most,
                      std::shared_ptr<const LeaseKeeper> keeper) {
  Shard& shard = shardFor(claim.key);
  const Lock lock(shard.mutex);
  Entry* const entry = shard.entries.find(claim.key);
  if (!isHeldBy(entry, claim, resolve(claim.at))) return false;
  const Nanoseconds since = entry->expiresAt - ttl;
  constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
  entry->kept = std::make_unique<Keep>(Keep{.keeper = std::move(keeper),
                                            .ttl = ttl,
                                            .limit = since > kNever - most ? kNever : since + most,
                                            .steady = claim.at == kSteady});
  return true;
}

bool LeaseTable::letGo(const Claim& claim) {
  Shard& shard = shardFor(claim.key);
  const Lock lock(shard.mutex);
  Entry* const entry = shard.entries.find(claim.key);
  if (!isHeldBy(entry, claim, resolve(claim.at))) return false;
  entry->kept.reset();
  return true;
}

bool LeaseTable::extendKept(Entry& entry, Nanoseconds at) {
  const Keep& kept = *entry.kept;
  const Nanoseconds endedAt = kept.keeper->endedAt();
  STRIPELOCK_SEAM("extend kept: after the keeper was asked");
  // mutant: lease-kept-after-death
  const bool lives = endedAt == LeaseKeeper::kLives;
  // Never earlier than before, which keeps L3; never beyond the limit, which keeps L5.
  if (lives || kept.steady) {
    // mutant: lease-kept-without-limit
    const Nanoseconds until = std::min((lives ? at : endedAt) + kept.ttl, kept.limit);
    entry.expiresAt = std::max(entry.expiresAt, until);
  }
  if (!lives) entry.kept.reset();
  return entry.expiresAt > at;
}

bool LeaseTable::release(const Claim& claim, const LeaseWatches* self) {
  // Destroyed after `lock`, so it sends its wakes with the shard unlocked.
  WakeSet wakes(self ? &self->participant() : nullptr);
  Shard& shard = shardFor(claim.key);
  const Lock lock(shard.mutex);
  Entry* const entry = shard.entries.find(claim.key);
  return entry && isOwn(*entry, claim) && freeEntry(shard, *entry, resolveRecent(claim.at), wakes);
}

std::optional<bool> LeaseTable::releaseHinted(std::uint32_t hint, std::uint64_t token, Nanoseconds at,
                                              const LeaseWatches* self) {
  WakeSet wakes(self ? &self->participant() : nullptr);
  Shard& shard = shards_[hint % kShards];
  const Lock lock(shard.mutex);
  Entry* const entry = shard.times.at(hint / kShards);
  // Tokens are never given twice.
  // mutant: lease-released-by-hint
  if (!entry || entry->token != token) return std::nullopt;
  return freeEntry(shard, *entry, resolveRecent(at), wakes);
}

bool LeaseTable::freeEntry(Shard& shard, Entry& entry, Nanoseconds at, WakeSet& wakes) {
  const bool held = isHeld(&entry, at);
  if (held && !shard.waiting.empty()) {
    if (Waiting* const queue = shard.waiting.find(entry.key.view())) {
      // Wakes every thread: one that does not get the key now must know how long the turn of the first lasts.
      queue->turnEnds = now() + kTurn;
      callWatches(*queue, wakes);
    }
  }
  // If it has expired, this sweeps it.
  erase(shard, entry);
  sweep(shard, at, kSweepOwn);
  return held;
}

std::optional<LeaseTable::Info> LeaseTable::inspect(const KeyView& key, Nanoseconds at) {
  Shard& shard = shardFor(key);
  const Lock lock(shard.mutex);
  at = resolve(at);
  Entry* const entry = shard.entries.find(key);
  if (!isHeld(entry, at)) return std::nullopt;
  return Info{.owner = entry->name(),
              .token = entry->token,
              .remaining = entry->expiresAt - at,
              .info = entry->info ? *entry->info : std::string()};
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

bool LeaseTable::isOwn(const Entry& entry, const Claim& claim) {
  if (claim.token != 0) return entry.token == claim.token;
  if (claim.owner.empty()) return false;
  return entry.owner.empty() ? claim.owner == anonymousOwner(entry.token) : claim.owner == entry.owner;
}

std::string LeaseTable::anonymousOwner(std::uint64_t token) {
  const std::string text = "lease " + std::to_string(token);
  const std::u16string units(text.begin(), text.end());
  std::string bytes(units.size() * sizeof(char16_t), '\0');
  std::memcpy(bytes.data(), units.data(), bytes.size());
  return bytes;
}

LeaseTable::Grant LeaseTable::grant(Shard& shard, Entry* entry, const Claim& claim, Nanoseconds at,
                                    Nanoseconds ttl) {
  if (entry) {
    extend(shard, *entry, at + ttl);
    if (entry->kept) entry->kept.reset();
  } else {
    entry = &add(shard, claim.key, at + ttl);
  }
  // Mostly both are empty, and a comparison costs less than an assignment.
  if (entry->owner != claim.owner) entry->owner = claim.owner;
  if (entry->info) entry->info.reset();
  entry->token = nextToken_.fetch_add(1);  // keeps L1
  const auto number = static_cast<std::uint32_t>(&shard - shards_.data());
  return {.token = entry->token, .since = at, .hint = entry->place * kShards + number};
}

LeaseTable::Entry& LeaseTable::add(Shard& shard, const KeyView& key, Nanoseconds expiresAt) {
  std::unique_ptr<Entry> added = std::move(shard.spare);
  if (added) {
    added->key.assign(key);
  } else {
    added = std::make_unique<Entry>(key);
  }
  Entry& entry = shard.entries.add(std::move(added));
  entry.expiresAt = expiresAt;
  shard.times.add(entry, expiresAt);  // keeps L2
  shard.size.store(shard.entries.size(), std::memory_order_relaxed);
  return entry;
}

void LeaseTable::extend(Shard& shard, Entry& entry, Nanoseconds expiresAt) {
  entry.expiresAt = expiresAt;
  if (expiresAt < shard.times.rankOf(entry)) shard.times.move(entry, expiresAt);  // keeps L3
}

void LeaseTable::erase(Shard& shard, Entry& entry) {
  shard.times.remove(entry);
  std::unique_ptr<Entry> removed = shard.entries.remove(entry);  // keeps L2
  if (removed->kept) removed->kept.reset();
  // A spare entry saves only its own allocation. It must not keep the memory of long texts.
  if (removed->key.isInPlace() && removed->owner.capacity() <= kSpareOwner) shard.spare = std::move(removed);
  shard.size.store(shard.entries.size(), std::memory_order_relaxed);
}

void LeaseTable::sweep(Shard& shard, Nanoseconds at, unsigned most) {
  for (unsigned i = 0; i < most && !shard.times.empty() && shard.times.leastRank() <= at; ++i) {
    Entry& entry = shard.times.least();
    if (!isHeld(&entry, at)) {
      erase(shard, entry);
    } else {
      shard.times.move(entry, entry.expiresAt);
    }
  }
}

void LeaseTable::sweepOther(Nanoseconds at) {
  Shard& shard = shards_[sweepNext_.fetch_add(1, std::memory_order_relaxed) % kShards];
  const Lock lock(shard.mutex, std::try_to_lock);
  // A thread that has it locked sweeps it.
  if (lock.owns_lock()) sweep(shard, at, kSweepOther);
}

bool LeaseTable::tend(Shard& shard, Nanoseconds at) {
  sweep(shard, at, kSweepOwn);
  return ++shard.operations % kSweepEvery == 0;
}

}  // namespace stripelock
