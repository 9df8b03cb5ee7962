#include "core/membership.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "core/participant.h"

namespace stripelock {

Membership::Membership(Table& table, Participant& participant) : table_(table), participant_(participant) {
  onces_.fill(KeyTable::kNone);
  const Lock lock(table.membersMutex);
  place_ = table.members.size();
  table.members.push_back(this);
}

Membership::~Membership() {
  const Lock lock(table_.membersMutex);
  // With the list still locked, so that no sum has them twice.
  count(kContendedCell, localsAt(localContendedIndex(table_.stripes())));
  // The last member takes its place, so the cost does not depend on how many there are.
  Membership* const last = table_.members.back();
  table_.members[place_] = last;
  last->place_ = place_;
  table_.members.pop_back();
}

bool Membership::release(std::uint32_t stripe, Mode mode, Leave::How how) {
  WakeSet wakes(&participant_);
  const Leave leave{.how = how, .mode = mode, .slot = participant_.slot()};
  if (isCounted(mode) && sharesOf(stripe) == 0) return false;
  if (!table_.leave(stripe, leave, &participant_, wakes)) return false;
  countShares(&stripe, 1, mode, -1);
  return true;
}

void Membership::countShares(const std::uint32_t* stripes, std::uint32_t count, Mode mode, int by) {
  if (!isCounted(mode)) return;
  Word* const shares = shares_.load();
  for (std::uint32_t i = 0; i < count; ++i) shares[stripes[i]].fetch_add(static_cast<std::uint32_t>(by));
}

void Membership::countUnnoticed(const std::uint32_t* stripes, std::uint32_t count, Mode mode, int by) {
  if (!isCounted(mode)) return;
  Word* const unnoticed = shares_.load() + table_.stripes();
  for (std::uint32_t i = 0; i < count; ++i) unnoticed[stripes[i]].fetch_add(static_cast<std::uint32_t>(by));
}

void Membership::abandon() {
  if (table_.keys()) {
    // By N3 it holds nothing else.
    forEachPinned([this](std::uint32_t stripe) { abandon(stripe); });
  } else {
    for (std::uint32_t stripe = 0; stripe < table_.stripes(); ++stripe) abandon(stripe);
  }
}

void Membership::abandon(std::uint32_t stripe) {
  Word* const shares = shares_.load();
  Leave leave{.how = Leave::How::kDie, .slot = participant_.slot()};
  if (shares && shares[stripe].load() != 0) {
    leave.mode = kCountedMode;
    // mutant: death-of-one-share
    leave.count = shares[stripe].exchange(0);
  } else if (!isHeldAloneBy(table_.word(stripe).load(), leave.slot)) {
    return;
  }
  WakeSet wakes;
  const bool left = table_.leave(stripe, leave, &participant_, wakes);
  if (left && isDeathTold(leave.mode, table_.limit())) count(kAbandonedCell);
}

Membership::Pinned Membership::pin(const KeyView& key) {
  const Pinned pinned = addPin(key, table_.keys()->pin(key));
  std::uint32_t& once = onces_[KeyTable::shardOf(key)];
  // mutant: N4-reuses-pinned-since
  if (once == pinned.stripe) once = KeyTable::kNone;
  return pinned;
}

Membership::Pinned Membership::pinOnce(const KeyView& key) {
  std::uint32_t& once = onces_[KeyTable::shardOf(key)];
  const std::uint32_t idle = once == KeyTable::kNone || uses(once) ? KeyTable::kNone : once;
  const Pinned pinned = addPin(key, table_.keys()->pin(key, idle));
  if (!pinned.again && pinned.stripe != KeyTable::kNone) once = pinned.stripe;
  return pinned;
}

Membership::Pinned Membership::addPin(const KeyView& key, KeyTable::Pinned got) {
  const std::uint32_t stripe = got.stripe;
  if (stripe == KeyTable::kNone) return {.stripe = stripe};
  const bool again = !got.reused && hasPinned(stripe);
  recurrence_.note(key.hash, again);
  const bool recurring = recurrence_.isUsual();
  if (got.reused) return {.stripe = stripe, .reused = true, .recurring = recurring};
  if (again) {
    table_.keys()->unpin(stripe);
    return {.stripe = stripe, .again = true, .recurring = recurring};
  }
  if (pinned_.size() <= stripe / 64) {
    // Twice as many at least, as stripes come in rising order at first.
    const std::size_t most = (std::size_t{table_.stripes()} + 63) / 64;
    pinned_.resize(std::min(most, std::max<std::size_t>(stripe / 64 + 1, 2 * pinned_.size())));
  }
  setPinned(stripe);
  return {.stripe = stripe, .crowded = got.crowded, .recurring = recurring};
}

std::size_t Membership::unpin(std::int32_t* stripes, std::size_t count) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto stripe = static_cast<std::uint32_t>(stripes[i]);
    // It may be in the list twice.
    if (!hasPinned(stripe)) continue;
    // Also if it is used, until the end: so each is kept once.
    pinned_[stripe / 64] &= ~(std::uint64_t{1} << (stripe % 64));
    if (uses(stripe)) {
      stripes[kept++] = stripes[i];
      continue;
    }
    std::uint32_t& once = onces_[table_.keys()->unpin(stripe)];
    if (once == stripe) once = KeyTable::kNone;
  }
  for (std::size_t i = 0; i < kept; ++i) setPinned(static_cast<std::uint32_t>(stripes[i]));
  return kept;
}

void Membership::unpinAll() {
  forEachPinned([this](std::uint32_t stripe) { table_.keys()->unpin(stripe); });
  pinned_.clear();
  onces_.fill(KeyTable::kNone);
}

bool Membership::uses(std::uint32_t stripe) const {
  return isHeldAloneBy(table_.word(stripe).load(), participant_.slot()) || sharesOf(stripe) != 0 ||
         (waits_ && waits_[stripe] != 0);
}

void Membership::countWaits(const std::uint32_t* stripes, std::uint32_t count, int by) {
  if (!table_.keys()) return;
  if (!waits_) {
    // calloc takes large blocks as untouched zero pages.
    waits_.reset(static_cast<std::uint32_t*>(std::calloc(table_.stripes(), sizeof(std::uint32_t))));
    // As operator new does with exceptions disabled.
    if (!waits_) std::abort();
  }
  for (std::uint32_t i = 0; i < count; ++i) waits_[stripes[i]] += static_cast<std::uint32_t>(by);
}

void Membership::Freed::operator()(std::uint32_t* counts) const { std::free(counts); }

template <typename Visit>
void Membership::forEachPinned(Visit visit) const {
  for (std::size_t i = 0; i < pinned_.size(); ++i) {
    for (std::uint64_t bits = pinned_[i]; bits != 0; bits &= bits - 1) {
      visit(static_cast<std::uint32_t>(i * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
    }
  }
}

}  // namespace stripelock
