#include "core/leases/lease_table.h"

#include <algorithm>

#include "core/base/platform.h"
#include "core/table/participant.h"
#include "core/table/wake_set.h"

namespace stripelock {

namespace {

// Call it with the table locked, so that successive operations never see the clock go back.
Nanoseconds resolve(Nanoseconds at) { return at == LeaseTable::kElapsed ? elapsed() : at; }

// Appends ASCII text as the bytes of UTF-16 code units, which is the form of the owners from JavaScript.
void appendUnits(std::string& text, std::string_view ascii) {
  for (const char character : ascii) {
    const auto unit = static_cast<char16_t>(character);
    text.append(reinterpret_cast<const char*>(&unit), sizeof unit);
  }
}

}  // namespace

LeaseTable::Grant LeaseTable::tryAcquire(const Claim& claim, Nanoseconds ttl, std::string_view info,
                                         const LeaseWatches& taker) {
  const Lock lock(mutex_);
  const Nanoseconds at = resolve(claim.at);
  sweep(at);
  Entry* const entry = entries_.find(claim.key);
  if (const Entry* const taken = ifHeld(entry, at); taken && taken->owner != claim.owner)
    return {.retryAfter = times_.rankOf(*taken) - at};
  if (const Nanoseconds left = passTurn(claim.key, taker); left > 0) return {.retryAfter = left};
  Entry& granted = grant(claim, at + ttl, entry, at);
  granted.info = info;
  return {.token = granted.token, .abandoned = granted.abandoned};
}

LeaseTable::Entry& LeaseTable::grant(const Claim& claim, Nanoseconds until, Entry* entry, Nanoseconds at) {
  if (entry) {
    if (ifHeld(entry, at)) {
      // mutant: lease-shortened-by-a-grant
      until = std::max(until, times_.rankOf(*entry));
    } else {
      entry->abandoned = entry->endsAbandoned();
    }
    entry->kept = false;
    entry->vacant = false;  // preserves L6
    entry->group.reset();
    times_.move(*entry, until);
  } else {
    const bool abandoned = takeLapsed(claim.key);  // preserves L4
    entry = &entries_.add(std::make_unique<Entry>(claim.key));
    times_.add(*entry, until);  // preserves L2
    entry->abandoned = abandoned;
  }
  entry->owner = claim.owner;
  entry->token = nextToken_++;  // preserves L1
  return *entry;
}

LeaseTable::SharedGrant LeaseTable::join(const Claim& claim, Nanoseconds ttl, const LeaseWatches& taker) {
  const auto refuse = [](Nanoseconds retryAfter) { return SharedGrant{{.retryAfter = retryAfter}, {}}; };
  const Lock lock(mutex_);
  const Nanoseconds at = resolve(claim.at);
  sweep(at);
  Entry* entry = entries_.find(claim.key);
  const Nanoseconds remaining = entry ? times_.rankOf(*entry) - at : 0;
  if (remaining > 0) {
    if (!entry->group) return refuse(remaining);
    Group& group = *entry->group;
    if (!group.readers.contains(claim.owner)) {
      // mutant: lease-joined-while-put-off
      if (group.putOffUntil > at) return refuse(std::min(remaining, group.putOffUntil - at));
      group.readers.emplace(claim.owner);
    }
    times_.move(*entry, std::max(times_.rankOf(*entry), at + ttl));  // preserves L5
  } else {
    if (const Nanoseconds left = passTurn(claim.key, taker); left > 0) return refuse(left);
    entry = &grant(claim, at + ttl, entry, at);
    appendUnits(entry->owner, ":" + std::to_string(entry->token));
    entry->info.clear();
    entry->group = std::make_unique<Group>();
    entry->group->readers.emplace(claim.owner);
  }
  return {{.token = entry->token, .abandoned = entry->abandoned}, entry->owner};
}

LeaseTable::Leave LeaseTable::leave(const Claim& claim, const LeaseWatches* self) {
  // Destroyed after `lock`, so it sends its wakes with the table unlocked.
  WakeSet wakes(self ? &self->participant() : nullptr);
  const Lock lock(mutex_);
  const Nanoseconds at = resolve(claim.at);
  sweep(at);
  Entry* const entry = held(claim.key, at);
  if (!entry || !entry->group) return Leave::kNotIn;
  auto& readers = entry->group->readers;
  const auto reader = readers.find(claim.owner);
  if (reader == readers.end()) return Leave::kNotIn;
  readers.erase(reader);
  // mutant: lease-freed-while-read
  if (!readers.empty()) return Leave::kOthersRemain;
  const Nanoseconds putOffUntil = entry->group->putOffUntil;
  // mutant: lease-put-off-ends-with-its-group
  const bool isPutOff = putOffUntil > at;
  // The thread that has waited longest might wait only for shared mode, which is refused.
  // mutant: lease-turn-of-refused-readers
  callWatches(claim.key, !isPutOff, wakes);
  if (isPutOff) {
    entry->vacant = true;
    entry->group.reset();
    times_.move(*entry, putOffUntil);  // preserves L6
  } else {
    vacate(*entry, at, entry->abandoned);
  }
  return Leave::kFreed;
}

bool LeaseTable::putOffReaders(const KeyView& key, Nanoseconds time, Nanoseconds at) {
  const Lock lock(mutex_);
  at = resolve(at);
  Entry* const entry = held(key, at);
  if (!entry || !entry->group) return false;
  entry->group->putOffUntil = std::max(entry->group->putOffUntil, at + time);
  return true;
}

Nanoseconds LeaseTable::passTurn(const KeyView& key, const LeaseWatches& taker) {
  Waiting* const queue = waiting_.find(key);
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
  const Lock lock(mutex_);
  const Nanoseconds at = resolve(claim.at);
  sweep(at);
  Entry* const entry = heldBy(claim, 0, at);
  if (!entry) return false;
  times_.move(*entry, std::max(times_.rankOf(*entry), at + ttl));
  if (info && !entry->group) entry->info = *info;
  return true;
}

template <typename IsAbandoned>
bool LeaseTable::endBy(const Claim& claim, std::uint64_t token, const LeaseWatches* self,
                       IsAbandoned isAbandoned) {
  // Destroyed after `lock`, so it sends its wakes with the table unlocked.
  WakeSet wakes(self ? &self->participant() : nullptr);
  const Lock lock(mutex_);
  const Nanoseconds at = resolve(claim.at);
  sweep(at);
  Entry* const entry = heldBy(claim, token, at);
  if (!entry) return false;
  callWatches(claim.key, true, wakes);
  vacate(*entry, at, isAbandoned(*entry));
  return true;
}

bool LeaseTable::end(const Claim& claim, std::uint64_t token, const LeaseWatches* self) {
  return endBy(claim, token, self, [](const Entry&) { return false; });
}

bool LeaseTable::takeBack(const Claim& claim, std::uint64_t token, bool wasUsed, const LeaseWatches* self) {
  return endBy(claim, token, self, [&](const Entry& entry) { return entry.endsAbandoned(wasUsed); });
}

bool LeaseTable::keep(const Claim& claim, std::uint64_t token, std::string_view keptOwner, Nanoseconds time,
                      const LeaseWatches* self) {
  // Allocated before the entry changes.
  std::string owner(keptOwner);
  // Destroyed after `lock`, so it sends its wakes with the table unlocked.
  WakeSet wakes(self ? &self->participant() : nullptr);
  const Lock lock(mutex_);
  const Nanoseconds at = resolve(claim.at);
  sweep(at);
  Entry* const entry = held(claim.key, at);
  // mutant: lease-kept-without-token
  if (!entry || entry->token != token) return false;
  // mutant: lease-kept-twice
  if (entry->kept) return entry->owner == keptOwner;
  if (entry->owner != claim.owner) return false;
  callWatches(claim.key, false, wakes);
  // mutant: lease-kept-by-its-owner
  entry->owner.swap(owner);
  times_.move(*entry, at + time);
  entry->kept = true;
  entry->abandoned = false;
  entry->group.reset();
  return true;
}

void LeaseTable::callWatches(const KeyView& key, bool turn, WakeSet& wakes) {
  Waiting* const queue = waiting_.find(key);
  if (!queue) return;
  // Wakes every waiting thread, because the other threads must learn how long the first thread's turn lasts.
  if (turn) queue->turnEnds = now() + kTurn;
  for (LeaseWatch* const watch : queue->watches) {
    watch->owner.push(*watch);
    wakes.addReady(watch->owner.participant());
  }
}

std::optional<LeaseTable::Info> LeaseTable::inspect(const KeyView& key, Nanoseconds at) {
  const Lock lock(mutex_);
  at = resolve(at);
  const Entry* const entry = held(key, at);
  if (!entry) return std::nullopt;
  return infoOf(*entry, at);
}

std::vector<LeaseTable::Listed> LeaseTable::list(std::string_view prefix, std::size_t most, KeyOrder isBefore,
                                                 Nanoseconds at) {
  const Lock lock(mutex_);
  at = resolve(at);
  std::vector<const Entry*> found;
  entries_.forEach([&](const Entry& entry) {
    if (times_.rankOf(entry) > at && !entry.vacant && entry.key.view().text.starts_with(prefix))
      found.push_back(&entry);
  });
  const std::size_t count = std::min(most, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count), found.end(),
                    [isBefore](const Entry* a, const Entry* b) {
                      return isBefore(a->key.view().text, b->key.view().text);
                    });
  found.resize(count);
  std::vector<Listed> listed;
  listed.reserve(count);
  for (const Entry* const entry : found) {
    listed.push_back({.key = std::string(entry->key.view().text), .info = infoOf(*entry, at)});
  }
  return listed;
}

LeaseTable::Info LeaseTable::infoOf(const Entry& entry, Nanoseconds at) const {
  return {
      .owner = entry.owner, .token = entry.token, .remaining = times_.rankOf(entry) - at, .info = entry.info};
}

std::size_t LeaseTable::size() {
  const Lock lock(mutex_);
  return entries_.size();
}

std::uint64_t LeaseTable::nextToken() {
  const Lock lock(mutex_);
  return nextToken_;
}

bool LeaseTable::sweepAll(Nanoseconds at) {
  const Lock lock(mutex_);
  sweep(resolve(at), entries_.size());
  return entries_.empty();
}

void LeaseTable::link(LeaseWatch& watch) {
  const KeyView key = watch.key.view();
  const Lock lock(mutex_);
  Waiting* queue = waiting_.find(key);
  if (!queue) queue = &waiting_.add(std::make_unique<Waiting>(key));
  queue->watches.push_back(&watch);
}

void LeaseTable::unlink(LeaseWatch& watch) {
  const Lock lock(mutex_);
  Waiting* const queue = waiting_.find(watch.key.view());
  std::vector<LeaseWatch*>& watches = queue->watches;
  watches.erase(std::find(watches.begin(), watches.end(), &watch));
  if (watches.empty()) waiting_.remove(*queue);
}

LeaseTable::Entry* LeaseTable::ifHeld(Entry* entry, Nanoseconds at) const {
  return entry && times_.rankOf(*entry) > at && !entry->vacant ? entry : nullptr;
}

LeaseTable::Entry* LeaseTable::held(const KeyView& key, Nanoseconds at) {
  return ifHeld(entries_.find(key), at);
}

LeaseTable::Entry* LeaseTable::heldBy(const Claim& claim, std::uint64_t token, Nanoseconds at) {
  Entry* const entry = held(claim.key, at);
  // mutant: lease-released-without-token
  const bool isOwn = entry && entry->owner == claim.owner && (token == 0 || entry->token == token);
  return isOwn ? entry : nullptr;
}

void LeaseTable::vacate(Entry& entry, Nanoseconds ended, bool abandoned) {
  if (abandoned) {
    lapse(entry, ended);
  } else {
    erase(entry);
  }
}

void LeaseTable::erase(Entry& entry) {
  times_.remove(entry);
  entries_.remove(entry);  // preserves L2
}

void LeaseTable::lapse(Entry& entry, Nanoseconds ended) {
  Lapsed& lapsed = lapsed_.add(std::make_unique<Lapsed>(entry.key.view()));
  lapses_.add(lapsed, ended);
  erase(entry);
  if (lapsed_.size() > kRemembered) forget(lapses_.least());  // preserves L4
}

bool LeaseTable::takeLapsed(const KeyView& key) {
  Lapsed* const lapsed = lapsed_.find(key);
  if (lapsed) forget(*lapsed);
  return lapsed != nullptr;
}

void LeaseTable::forget(Lapsed& key) {
  lapses_.remove(key);
  lapsed_.remove(key);
}

void LeaseTable::sweep(Nanoseconds at, std::size_t most) {
  for (std::size_t i = 0; i < most && !times_.empty() && times_.leastRank() <= at; ++i) {
    Entry& entry = times_.least();
    vacate(entry, times_.leastRank(), entry.endsAbandoned());  // preserves L7
  }
}

}  // namespace stripelock
