#include "core/lease_table.h"

#include <algorithm>
#include <cstring>

#include "core/participant.h"
#include "core/wake_set.h"

namespace stripelock {

namespace {

// Under the shard's lock, so that on the steady clock operations on one key see time in their order.
Nanoseconds resolve(Nanoseconds at) { return at == LeaseTable::kSteady ? now() : at; }

}  // namespace

std::uint64_t LeaseTable::tryAcquire(const Claim& claim, Nanoseconds ttl) {
  Shard& shard = shardFor(claim.key);
  Lock lock(shard.mutex);
  const Nanoseconds at = resolve(claim.at);
  const bool due = tend(shard, at);
  Entry* const entry = find(shard, claim.key);
  const bool taken = isHeld(entry, at) && !isOwn(*entry, claim);
  const std::uint64_t token = taken ? 0 : grant(shard, entry, claim, at + ttl);
  lock.unlock();
  if (due) sweepOther(at);
  return token;
}

LeaseTable::Turn LeaseTable::takeTurn(const Claim& claim, Nanoseconds ttl, const LeaseWatches& waiting) {
  Shard& shard = shardFor(claim.key);
  const Lock lock(shard.mutex);
  const Nanoseconds at = resolve(claim.at);
  tend(shard, at);
  Entry* const entry = find(shard, claim.key);
  if (isHeld(entry, at) && !isOwn(*entry, claim)) return {.token = 0, .retryAfter = entry->expiresAt - at};
  const auto found = shard.waiting.find(claim.key);
  if (found != shard.waiting.end()) {
    auto& [watches, turnEnds] = found->second;
    const bool first = &watches.front()->owner == &waiting;
    const Nanoseconds left = turnEnds - now();
    if (!first && left > 0) return {.token = 0, .retryAfter = left};
    // Who takes its turn, or has let it pass, is last for the next.
    if (first || turnEnds != 0) std::rotate(watches.begin(), watches.begin() + 1, watches.end());
    turnEnds = 0;
  }
  return {.token = grant(shard, entry, claim, at + ttl), .retryAfter = 0};
}

bool LeaseTable::renew(const Claim& claim, Nanoseconds ttl) {
  Shard& shard = shardFor(claim.key);
  Lock lock(shard.mutex);
  const Nanoseconds at = resolve(claim.at);
  const bool due = tend(shard, at);
  Entry* const entry = find(shard, claim.key);
  const bool own = isHeldBy(entry, claim, at);
  if (own) extend(shard, *entry, at + ttl);
  lock.unlock();
  if (due) sweepOther(at);
  return own;
}

bool LeaseTable::release(const Claim& claim, const LeaseWatches* self) {
  // Sent when the shard is unlocked, since it was locked later.
  WakeSet wakes(self ? &self->participant() : nullptr);
  Shard& shard = shardFor(claim.key);
  const Lock lock(shard.mutex);
  const Nanoseconds at = resolve(claim.at);
  tend(shard, at);
  Entry* const entry = find(shard, claim.key);
  if (!isHeldBy(entry, claim, at)) return false;
  erase(shard, *entry);
  if (shard.waiting.empty()) return true;
  const auto found = shard.waiting.find(claim.key);
  if (found == shard.waiting.end()) return true;
  // One for each thread: whoever does not get it now needs to know since when it is free.
  found->second.turnEnds = now() + kTurn;
  for (LeaseWatch* const watch : found->second.watches) {
    watch->owner.push(*watch);
    wakes.addReady(watch->owner.participant());
  }
  return true;
}

std::optional<LeaseTable::Info> LeaseTable::inspect(const KeyView& key, Nanoseconds at) {
  Shard& shard = shardFor(key);
  const Lock lock(shard.mutex);
  at = resolve(at);
  const Entry* const entry = find(shard, key);
  if (!isHeld(entry, at)) return std::nullopt;
  return Info{.owner = entry->name(), .token = entry->token, .remaining = entry->expiresAt - at};
}

bool LeaseTable::sweepAll(Nanoseconds at) {
  for (Shard& shard : shards_) {
    const Lock lock(shard.mutex);
    sweep(shard, resolve(at), std::numeric_limits<unsigned>::max());
  }
  return size() == 0;
}

void LeaseTable::link(LeaseWatch& watch) {
  Shard& shard = shardFor(watch.key.view());
  const Lock lock(shard.mutex);
  shard.waiting[watch.key].watches.push_back(&watch);
}

void LeaseTable::unlink(LeaseWatch& watch) {
  Shard& shard = shardFor(watch.key.view());
  const Lock lock(shard.mutex);
  const auto found = shard.waiting.find(watch.key);
  std::vector<LeaseWatch*>& watches = found->second.watches;
  watches.erase(std::find(watches.begin(), watches.end(), &watch));
  if (!watches.empty()) return;
  shard.waiting.erase(found);
  shrinkSparse(shard.waiting);
}

LeaseTable::Entry* LeaseTable::find(Shard& shard, const KeyView& key) {
  const auto found = shard.entries.find(key);
  return found == shard.entries.end() ? nullptr : &found->second;
}

bool LeaseTable::isOwn(const Entry& entry, const Claim& claim) {
  if (claim.token != 0) return entry.token == claim.token;
  if (claim.owner.empty()) return false;
  return entry.owner.empty() ? claim.owner == nameOf(entry.token) : claim.owner == entry.owner;
}

std::string LeaseTable::nameOf(std::uint64_t token) {
  const std::string text = "lease " + std::to_string(token);
  const std::u16string units(text.begin(), text.end());
  std::string bytes(units.size() * sizeof(char16_t), '\0');
  std::memcpy(bytes.data(), units.data(), bytes.size());
  return bytes;
}

std::uint64_t LeaseTable::grant(Shard& shard, Entry* entry, const Claim& claim, Nanoseconds expiresAt) {
  if (entry) {
    extend(shard, *entry, expiresAt);
  } else {
    entry = &add(shard, claim.key, expiresAt);
  }
  entry->owner = claim.owner;
  entry->token = nextToken_.fetch_add(1);  // keeps I1
  return entry->token;
}

LeaseTable::Entry& LeaseTable::add(Shard& shard, const KeyView& key, Nanoseconds expiresAt) {
  KeyMap<Entry>::iterator place;
  if (shard.spare.empty()) {
    place = shard.entries.try_emplace(ExactKey(key)).first;
  } else {
    shard.spare.key().assign(key);
    place = shard.entries.insert(std::move(shard.spare)).position;
  }
  Entry& entry = place->second;
  entry.key = &place->first;
  entry.expiresAt = expiresAt;
  shard.times.add(entry, expiresAt);  // keeps I2
  size_.fetch_add(1, std::memory_order_relaxed);
  return entry;
}

void LeaseTable::extend(Shard& shard, Entry& entry, Nanoseconds expiresAt) {
  entry.expiresAt = expiresAt;
  if (expiresAt < shard.times.rankOf(entry)) shard.times.move(entry, expiresAt);  // keeps I3
}

void LeaseTable::erase(Shard& shard, Entry& entry) {
  shard.times.remove(entry);
  shard.spare = shard.entries.extract(shard.entries.find(entry.key->view()));  // keeps I2
  // A spare node is worth its malloc only, not a long key's memory.
  if (shard.spare.key().text.capacity() > kSpareKey) shard.spare = {};
  shrinkSparse(shard.entries);
  size_.fetch_sub(1, std::memory_order_relaxed);
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
  // Who has it locked sweeps it.
  if (lock.owns_lock()) sweep(shard, at, kSweepOther);
}

bool LeaseTable::tend(Shard& shard, Nanoseconds at) {
  sweep(shard, at, kSweepOwn);
  return ++shard.operations % kSweepEvery == 0;
}

}  // namespace stripelock
