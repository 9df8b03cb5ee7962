// How a stripe is released, and which waiters are granted it.

#include <optional>

#include "core/table/membership.h"
#include "core/table/participant.h"
#include "core/table/table.h"

namespace stripelock {

namespace {

// How many waiters, from the head of the queue, a release examines to find one of the releasing thread. If it finds
// none, it serves another thread's waiter.
constexpr int kLocalSearch = 16;

// The word after `leave`, before the next grant. Returns nullopt if the word does not contain this hold. `isReported`:
// true if words report deaths; false if the table's gate reports them.
std::optional<std::uint32_t> afterLeaving(std::uint32_t word, const Leave& leave, std::uint32_t limit,
                                          bool isReported) {
  std::optional<std::uint32_t> left = withoutHolds(word, leave.mode, leave.slot, leave.count);
  if (!left) return std::nullopt;
  // mutant: death-rolled-back
  if (leave.how == Leave::How::kRelease && traitsOf(leave.mode).mayWrite) *left &= ~kAbandoned;
  // mutant: death-untold
  if (leave.how == Leave::How::kDie && isReported && reportsDeath(leave.mode, limit)) *left |= kAbandoned;
  if (hasPermits(limit)) {
    // Preserves P3: a release clears kAbandoned only if some holder has seen the death.
    // mutant: P3-told-for-ever
    if (leave.how == Leave::How::kRelease && (*left & kDeathReported) != 0) *left &= ~kAbandoned;
    // mutant: P3-rolled-back-was-told
    *left &= ~kDeathReported;
  }
  return left;
}

}  // namespace

bool Table::leave(std::uint32_t stripe, const Leave& leave, Participant* actor, WakeSet& wakes) {
  const Lock lock(shardOf(stripe));
  return changeAndGrant(stripe, &leave, actor, wakes);
}

bool Table::leaveEntered(std::uint32_t stripe, Leave leave, bool died, Participant* actor, WakeSet& wakes) {
  if (!gate_) return this->leave(stripe, leave, actor, wakes);
  leave.cedes = gate_->leave(stripe, leave.count, died, isAwaited(stripe));
  STRIPELOCK_SEAM("release: between the gate and the word");
  const bool left = this->leave(stripe, leave, actor, wakes);
  if (leave.cedes) gate_->ceded(stripe, nullptr);
  return left;
}

Nanoseconds Table::fairIn(std::uint32_t stripe) {
  const Lock lock(shardOf(stripe));
  const StripeQueue& queue = queueOf(stripe);
  return queue.head ? queue.fairAt - now() : kBargingPeriod;
}

void Table::regrant(std::uint32_t stripe, Participant* actor, WakeSet& wakes) {
  changeAndGrant(stripe, nullptr, actor, wakes);
}

bool Table::changeAndGrant(std::uint32_t stripe, const Leave* leave, Participant* actor, WakeSet& wakes) {
  Word& word = this->word(stripe);
  std::uint32_t seen = word.load();
  for (;;) {
    const std::optional<std::uint32_t> left = leave ? afterLeaving(seen, *leave, limit_, !gate_) : seen;
    if (!left) return false;
    // mutant: cede-without-closed
    if (leave && leave->cedes) queueOf(stripe).closed = true;
    const Plan chosen = plan(queueOf(stripe), *left, actor);
    STRIPELOCK_SEAM("leave: before the word changes");
    // This one exchange both releases the stripe and grants it, so the stripe is never free in between (I1).
    if (word.compare_exchange_weak(seen, chosen.next)) {
      carryOut(stripe, chosen, wakes);
      return true;
    }
  }
}

// Decides how many waiters may enter. If only one may, planForOne() chooses between a hand-over and a designation.
Table::Plan Table::plan(StripeQueue& queue, std::uint32_t left, const Participant* actor) const {
  const std::uint32_t bare = left & ~kQueued;
  if (queue.closed || isHeldAloneBy(bare, kElsewhere)) return planElsewhere(queue, bare);
  // mutant: I4-designates-twice
  if (queue.designated.load()) return planBesideDesignated(queue, bare);
  Waiter* const first = passOverIneligible(queue.head);
  if (!first) return {.next = bare};
  const std::uint32_t places = placesFor(bare, first->mode, limit_);
  if (places == 0) return {.next = bare | kQueued};
  if (places == 1) return planForOne(queue, *first, bare, actor);
  Plan plan = planForSeveral(first, bare, 0);
  plan.fairAt = now() + kBargingPeriod;
  return plan;
}

// Preserves E3: the stripe stays ceded only if an eligible or designated waiter waits for it.
Table::Plan Table::planElsewhere(StripeQueue& queue, std::uint32_t left) const {
  const bool isElsewhere = isHeldAloneBy(left, kElsewhere);
  const Waiter* const first = passOverIneligible(queue.head);
  // mutant: E3-kept-without-waiter
  const bool isAwaited = first || queue.designated.load();
  if (!isAwaited) return {.next = isElsewhere ? *withoutHolds(left, Mode::kExclusive, kElsewhere, 1) : left};
  const bool isLeft = isFree(left);
  Plan plan{.next = isLeft ? left | kElsewhere : left,
            .closed = !isLeft && !isElsewhere,
            .ceded = true,
            .first = first};
  if (!queue.designated.load()) plan.next |= kQueued;
  return plan;
}

// The designated waiter will serve the waiters behind it (I4). But permits that the designated waiter does not need are
// granted immediately, so that the waiters behind it need not wait until its thread is awake (preserves P2).
Table::Plan Table::planBesideDesignated(StripeQueue& queue, std::uint32_t left) const {
  if (!hasPermits(limit_)) return {.next = left};
  Plan plan = planForSeveral(passOverIneligible(queue.head), left, 1);
  plan.next &= ~kQueued;
  plan.fairAt = queue.fairAt;
  return plan;
}

// Grants the compatible waiters from `waiter` on, in order, while more than `kept` places remain. The granted waiters
// are chained through nextReady, because their eligibility may change before the plan is carried out.
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
  // True if the only waiter is an async waiter of the releasing thread. That waiter is always handed the stripe, and
  // the queue is then empty, so the clock need not be read.
  const bool settled = alone && first.async && first.owner == actor;
  const Nanoseconds time = settled ? 0 : now();
  Waiter* chosen = &first;
  if (!settled && time < queue.fairAt) {
    chosen = nearest(queue, first, left, actor);
    // In the barging period, a stripe is handed only to a waiter of the releasing thread, which is awake. Any other
    // waiter is designated: a stripe that is handed to a sleeping thread would be unused until that thread wakes.
    const bool isLocal = chosen->async && chosen->owner == actor;
    // An async waiter is handed its permit even if the waiter belongs to another thread. That thread's event loop may
    // be busy, and only a waiter that wakes soon may be designated (preserves P2).
    const bool mayBeLate = chosen->async && hasPermits(limit_);
    // mutant: P2-waits-for-event-loop
    if (!isLocal && !mayBeLate) return {.next = left, .designate = chosen};
  }
  Plan plan{.next = *withHold(left, chosen->mode, chosen->owner->slot(), limit_), .grant = chosen};
  chosen->nextReady = nullptr;
  // mutant: fairness-restarts
  plan.fairAt = chosen == &first ? time + kBargingPeriod : queue.fairAt;
  // mutant: I3-grant-drops-queued
  if (!alone) plan.next |= kQueued;
  return plan;
}

// Searches the next kLocalSearch waiters. Returns the first async one that belongs to `actor` and can take the only free
// place, or `first` if there is none. If all waiters are blocked threads, reads none of them, because each would cost a
// cache miss.
Waiter* Table::nearest(const StripeQueue& queue, Waiter& first, std::uint32_t left,
                       const Participant* actor) const {
  // mutant: serves-no-local
  if (first.owner == actor || queue.asyncs == 0) return &first;
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
  queue.closed = plan.closed;
  if (gate_) {
    const bool isCalled = plan.designate || queue.designated.load();
    gate_->settled(stripe, plan.next, isCalled, plan.ceded, plan.first);
  }
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
    // Takes the waiter's next stripes. The waiter's thread is woken only when the waiter has all stripes, or is
    // designated (preserves I6).
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
    // The last step, because the waiter's thread may then return and destroy the waiter.
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
