// What happens when a stripe is left, and who is granted it then.

#include <optional>

#include "core/membership.h"
#include "core/participant.h"
#include "core/table.h"

namespace stripelock {

namespace {

// How far a release looks for a waiter of its own thread before it hands over to another one.
constexpr int kLocalSearch = 16;

// The word after `leave`, before anybody is granted the stripe. Nothing if, according to the word, the stripe is not
// held in that way.
std::optional<std::uint32_t> afterLeaving(std::uint32_t word, const Leave& leave, std::uint32_t limit) {
  std::optional<std::uint32_t> left = withoutHolds(word, leave.mode, leave.slot, leave.count);
  if (!left) return std::nullopt;
  // mutant: death-rolled-back
  if (leave.how == Leave::How::kRelease && traitsOf(leave.mode).mayWrite) *left &= ~kAbandoned;
  // mutant: death-untold
  if (leave.how == Leave::How::kDie && isDeathTold(leave.mode, limit)) *left |= kAbandoned;
  if (hasPermits(limit)) {
    // Keeps P3. Who comes next is told in any case but this one.
    // mutant: P3-told-for-ever
    if (leave.how == Leave::How::kRelease && (*left & kTold) != 0) *left &= ~kAbandoned;
    // mutant: P3-rolled-back-was-told
    *left &= ~kTold;
  }
  return left;
}

}  // namespace

bool Table::leave(std::uint32_t stripe, const Leave& leave, Participant* actor, WakeSet& wakes) {
  const Lock lock(shardOf(stripe));
  return changeAndGrant(stripe, &leave, actor, wakes);
}

Nanoseconds Table::fairIn(std::uint32_t stripe) {
  const Lock lock(shardOf(stripe));
  const StripeQueue& queue = queueOf(stripe);
  return queue.head ? queue.fairAt - now() : kFairness;
}

void Table::regrant(std::uint32_t stripe, Participant* actor, WakeSet& wakes) {
  changeAndGrant(stripe, nullptr, actor, wakes);
}

bool Table::changeAndGrant(std::uint32_t stripe, const Leave* leave, Participant* actor, WakeSet& wakes) {
  Word& word = this->word(stripe);
  std::uint32_t seen = word.load();
  for (;;) {
    const std::optional<std::uint32_t> left = leave ? afterLeaving(seen, *leave, limit_) : seen;
    if (!left) return false;
    const Plan chosen = plan(queueOf(stripe), *left, actor);
    STRIPELOCK_SEAM("leave: before the word changes");
    // This one exchange also makes the grants, so the stripe is never free in between (I1).
    if (word.compare_exchange_weak(seen, chosen.next)) {
      carryOut(stripe, chosen, wakes);
      return true;
    }
  }
}

// First how many may enter; then, only where that is one, whether it is handed the stripe or called to try for it.
Table::Plan Table::plan(StripeQueue& queue, std::uint32_t left, const Participant* actor) const {
  const std::uint32_t bare = left & ~kQueued;
  // mutant: I4-designates-twice
  if (queue.designated.load()) return planBesideDesignated(queue, bare);
  Waiter* const first = passOverIneligible(queue.head);
  if (!first) return {.next = bare};
  const std::uint32_t places = placesFor(bare, first->mode, limit_);
  if (places == 0) return {.next = bare | kQueued};
  if (places == 1) return planForOne(queue, *first, bare, actor);
  Plan plan = planForSeveral(first, bare, 0);
  plan.fairAt = now() + kFairness;
  return plan;
}

// The designated waiter looks after those behind it (I4). Permits that it does not need go to them at once: they need not
// wait until it is awake (keeps P2).
Table::Plan Table::planBesideDesignated(StripeQueue& queue, std::uint32_t left) const {
  if (!hasPermits(limit_)) return {.next = left};
  Plan plan = planForSeveral(passOverIneligible(queue.head), left, 1);
  plan.next &= ~kQueued;
  plan.fairAt = queue.fairAt;
  return plan;
}

// All that go together enter together, from `waiter` up to the first for whom there is no place beside those that are
// kept. They are chained through nextReady, since their eligibility may change before they are granted.
Table::Plan Table::planForSeveral(Waiter* waiter, std::uint32_t left, std::uint32_t kept) const {
  Plan plan{.next = left};
  Waiter** end = &plan.grant;
  for (; waiter; waiter = passOverIneligible(waiter->next)) {
    if (waiter->is(WaiterState::kDesignated)) continue;
    // mutant: P1-release
    if (placesFor(plan.next, waiter->mode, limit_) <= kept) break;
    plan.next = *withHold(plan.next, waiter->mode, waiter->owner->slot(), limit_);
    *end = waiter;
    end = &waiter->nextReady;
  }
  *end = nullptr;
  if (waiter) plan.next |= kQueued;
  return plan;
}

Table::Plan Table::planForOne(StripeQueue& queue, Waiter& first, std::uint32_t left,
                              const Participant* actor) const {
  const bool alone = queue.head == queue.tail;
  // Handed over at any time, and then the queue is empty: no need to read the clock.
  const bool settled = alone && first.async && first.owner == actor;
  const Nanoseconds time = settled ? 0 : now();
  Waiter* chosen = &first;
  if (!settled && time < queue.fairAt) {
    chosen = nearest(first, left, actor);
    // Not handed over to a waiter for several stripes either: until its thread wakes, nobody could use this stripe or
    // the others. A waiter of the releasing thread itself needs no waking.
    const bool isLocal = chosen->async && chosen->owner == actor;
    // An event loop may be busy, and other permits must not wait for that (keeps P2).
    const bool mayBeLate = chosen->async && hasPermits(limit_);
    // mutant: P2-waits-for-event-loop
    if (!isLocal && !mayBeLate) return {.next = left, .designate = chosen};
  }
  Plan plan{.next = *withHold(left, chosen->mode, chosen->owner->slot(), limit_), .grant = chosen};
  chosen->nextReady = nullptr;
  // mutant: fairness-restarts
  plan.fairAt = chosen == &first ? time + kFairness : queue.fairAt;
  // mutant: I3-grant-drops-queued
  if (!alone) plan.next |= kQueued;
  return plan;
}

// The first of the next few waiters that is the actor's own and takes the one place; otherwise `first`.
Waiter* Table::nearest(Waiter& first, std::uint32_t left, const Participant* actor) const {
  if (first.owner == actor) return &first;
  Waiter* waiter = &first;
  for (int i = 0; waiter && i < kLocalSearch; ++i, waiter = waiter->next) {
    if (waiter->owner == actor && waiter->async && placesFor(left, waiter->mode, limit_) == 1 &&
        !passOver(*waiter)) {
      return waiter;
    }
  }
  return &first;
}

void Table::drawFor(Waiter& waiter, WakeSet& wakes) {
  if ((observed().load(std::memory_order_relaxed) & kObserveProfile) == 0) return;
  waiter.draw = ContentionProfile::instance().draw(now() - waiter.since);
  if (!isRecorded(wakes.draw)) wakes.draw = waiter.draw;
}

void Table::carryOut(std::uint32_t stripe, const Plan& plan, WakeSet& wakes) {
  StripeQueue& queue = queueOf(stripe);
  if (plan.designate) {
    Waiter& waiter = *plan.designate;
    drawFor(waiter, wakes);
    queue.designated.store(&waiter);
    waiter.state.store(WaiterState::kDesignated);
    if (waiter.async) {
      waiter.owner->pushReady(waiter);
      wakes.addReady(*waiter.owner);
    } else {
      wakes.addParked(*waiter.owner);
    }
    return;
  }
  if (!plan.grant) return;
  queue.fairAt = plan.fairAt;
  Waiter* waiter = plan.grant;
  while (waiter) {
    Waiter* const following = waiter->nextReady;
    waiter->nextReady = nullptr;
    queue.remove(*waiter);
    drawFor(*waiter, wakes);
    if (plan.next & kAbandoned) waiter->abandoned = true;
    // mutant: I1-share-not-counted
    waiter->membership->countTaken(*waiter, stripe);
    // Its thread need not wake until it has everything, or is the one to try (keeps I6).
    proceed(*waiter, waiter->position.load() + 1, &shardOf(stripe), &wakes);
    waiter = following;
  }
}

void Table::complete(Waiter& waiter, WakeSet& wakes) {
  Participant& owner = *waiter.owner;
  STRIPELOCK_SEAM("grant: before it is told");
  if (waiter.async) {
    cell(kWaitingCell).fetch_sub(1);
    owner.pushGranted(waiter);
    wakes.addReady(owner);
  } else {
    // mutant: granted-sleeps
    wakes.addParked(owner);
    // Last: its thread may return at once, and the waiter be gone.
    waiter.state.store(WaiterState::kGranted);
  }
}

void Table::rollBack(const std::uint32_t* stripes, std::uint32_t count, Participant& owner, Mode mode) {
  STRIPELOCK_SEAM("roll back: before the stripes are left");
  for (std::uint32_t i = count; i-- > 0;) {
    WakeSet wakes;
    leave(stripes[i], {.how = Leave::How::kRollBack, .mode = mode, .slot = owner.slot()}, &owner, wakes);
  }
}

}  // namespace stripelock
