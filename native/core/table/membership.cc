#include "core/table/membership.h"

#include "core/table/participant.h"

namespace stripelock {

Membership::Membership(Table& table, Participant& participant)
    : table_(table),
      participant_(participant),
      pins_(table.keys() ? std::make_unique<KeyPins>(*this) : nullptr) {
  const Lock lock(table.membersMutex);
  place_ = table.members.size();
  table.members.push_back(this);
}

Membership::~Membership() {
  const Lock lock(table_.membersMutex);
  // countedBy() in registry.cc sums the cell and the locals under the mutex that is locked here, so it does not miss
  // these acquisitions or count them twice. NativeTable.stats() reads the locals under the mutex, but the cell later,
  // so it may count them twice.
  count(kContendedCell, localsAt(localContendedIndex(table_.stripes())));
  // Moves the last member to the freed place, so that the removal takes constant time.
  Membership* const last = table_.members.back();
  table_.members[place_] = last;
  last->place_ = place_;
  table_.members.pop_back();
}

bool Membership::release(std::uint32_t stripe, Mode mode, Leave::How how) {
  WakeSet wakes(&participant_);
  const Leave leave{.how = how, .mode = mode, .slot = participant_.slot()};
  if (isCounted(mode) && sharesOf(stripe) == 0) return false;
  const bool isEntered = isCounted(mode) || isHeldAloneBy(table_.word(stripe).load(), participant_.slot());
  if (table_.gate() && !isEntered) return false;
  if (!table_.leaveEntered(stripe, leave, false, &participant_, wakes)) return false;
  countShares(&stripe, 1, mode, -1);
  participant_.draw = wakes.draw;
  return true;
}

bool Membership::tryEnter(std::uint32_t stripe) {
  const AsyncWaits::Started started = participant_.asyncWaits().start(
      *this, {.stripes = &stripe, .count = 1, .taken = 0, .mode = Mode::kExclusive, .timeout = 0});
  if (started.status != AsyncStart::kGranted) return false;
  // mutant: enters-without-report
  if (!started.abandoned) return true;
  WakeSet wakes;
  const Leave leave{.how = Leave::How::kRollBack, .slot = participant_.slot()};
  table_.leaveEntered(stripe, leave, true, &participant_, wakes);
  return false;
}

bool Membership::holds(std::uint32_t stripe) const {
  return isHeldAloneBy(table_.word(stripe).load(), participant_.slot()) || sharesOf(stripe) != 0;
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
  if (pins_) {
    // The thread holds only stripes that it has pinned (N3).
    pins_->forEach([this](std::uint32_t stripe) { abandon(stripe); });
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
  // Preserves E4.
  // mutant: E4-abandons-the-word-only
  const bool left = table_.leaveEntered(stripe, leave, true, &participant_, wakes);
  if (left && reportsDeath(leave.mode, table_.limit())) count(kAbandonedCell);
}

}  // namespace stripelock
