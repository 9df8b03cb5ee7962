#include "core/table.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "core/membership.h"
#include "core/participant.h"

namespace stripelock {

namespace {

// Enough that threads at different stripes rarely meet, few enough to cost nothing in a small lock.
constexpr std::uint32_t kMaxShards = 64;
// How far a release looks for a waiter of its own thread before it hands over to another one.
constexpr int kLocalSearch = 16;

// What is left of a word when `leave` is done, before anybody is granted. Nothing if the word does not say that
// the stripe is held so: it was tampered with, or the caller errs.
std::optional<std::uint32_t> afterLeaving(std::uint32_t word, Leave leave) {
  if (leave.how == Leave::How::kStay) return word;
  std::uint32_t left = 0;
  if (leave.shared) {
    if (!isShared(word) || holderOf(word) < leave.count) return std::nullopt;
    left = holderOf(word) == leave.count ? word & ~(kShared | kHolderMask) : word - leave.count;
  } else {
    if (!heldExclusivelyBy(word, leave.slot)) return std::nullopt;
    left = word & ~kHolderMask;
    // The holder knew, and has seen to it.
    if (leave.how == Leave::How::kRelease) left &= ~kAbandoned;
  }
  return leave.how == Leave::How::kDie ? left | kAbandoned : left;
}

}  // namespace

bool eligible(const Waiter& waiter) {
  return !waiter.async || !waiter.owner->passOver(waiter.position.load() > 0);
}

Waiter* firstEligible(Waiter* from) {
  while (from && !eligible(*from)) from = from->next;
  return from;
}

void Table::Freed::operator()(StripeQueue* queues) const { std::free(queues); }

Table::Table(void* memory, std::uint32_t stripes)
    : memory_(memory),
      words_(static_cast<Word*>(memory)),
      cells_(static_cast<Cell*>(memory)),
      stripes_(stripes),
      // calloc takes large blocks as untouched zero pages, so stripes that are never waited for cost nothing.
      queues_(static_cast<StripeQueue*>(std::calloc(stripes, sizeof(StripeQueue)))) {
  // As operator new does where exceptions are off.
  if (!queues_) std::abort();
  while (((stripes - 1) >> shardShift_) >= kMaxShards) ++shardShift_;
  shards_ = std::make_unique<Shard[]>(((stripes - 1) >> shardShift_) + 1);
}

Table::~Table() = default;

bool Table::tryTake(std::uint32_t stripe, std::uint32_t slot, bool shared, bool& abandoned) {
  Word& word = this->word(stripe);
  std::uint32_t seen = word.load();
  for (;;) {
    std::uint32_t next = 0;
    if (isFree(seen)) {
      next = seen | (shared ? kShared + 1 : slot);
    } else if (shared && isShared(seen) && !(seen & kQueued) && holderOf(seen) < kHolderMask) {
      next = seen + 1;
    } else {
      return false;
    }
    STRIPELOCK_SEAM("take: before the word changes");
    if (word.compare_exchange_weak(seen, next)) break;
  }
  if (seen & kAbandoned) abandoned = true;
  return true;
}

bool Table::proceed(Waiter& waiter, std::uint32_t from, Mutex* held, WakeSet* wakes) {
  // Keeps the shard under which the waiter can be found until the next one is locked. Shards are locked in
  // rising order since stripes are.
  Lock last;
  for (std::uint32_t position = from; position < waiter.count; ++position) {
    const std::uint32_t stripe = waiter.stripes[position];
    if (tryTake(stripe, waiter.owner->slot(), waiter.shared, waiter.abandoned)) {
      waiter.membership->countTaken(waiter, stripe);
      continue;
    }
    STRIPELOCK_SEAM("proceed: before the next shard");
    Mutex& shard = shardOf(stripe);
    Lock next;
    if (&shard != held && &shard != last.mutex()) next = Lock(shard);
    STRIPELOCK_SEAM("proceed: before the position changes");
    // While the shard that it leaves is locked still, or a withdrawal could take it for linked there (keeps I5).
    waiter.position.store(position);
    if (next) last = std::move(next);
    if (!takeOrLink(waiter, stripe)) return false;
  }
  // Still under the shard where a withdrawal would look for it, so that it finds it granted (keeps I5).
  if (wakes) complete(waiter, *wakes);
  return true;
}

bool Table::mayTake(const Waiter& waiter, std::uint32_t word, const StripeQueue& queue) const {
  if (isFree(word)) return true;
  if (!waiter.shared || !isShared(word) || holderOf(word) == kHolderMask) return false;
  // Not past an exclusive waiter, or a stream of shared ones could keep it waiting for ever.
  for (Waiter* other = firstEligible(queue.head); other; other = firstEligible(other->next)) {
    if (!other->shared) return false;
  }
  return true;
}

// Under the stripe's shard. Keeps I3: links only after kQueued is set or with a designated waiter on its way.
bool Table::takeOrLink(Waiter& waiter, std::uint32_t stripe) {
  Word& word = this->word(stripe);
  StripeQueue& queue = queueOf(stripe);
  std::uint32_t seen = word.load();
  for (;;) {
    const bool taking = mayTake(waiter, seen, queue);
    std::uint32_t next = seen;
    if (!taking) {
      if (!queue.designated.load()) next |= kQueued;
    } else if (isFree(seen)) {
      next |= waiter.shared ? kShared + 1 : waiter.owner->slot();
    } else {
      next += 1;
    }
    STRIPELOCK_SEAM("link: before the word changes");
    if (next != seen && !word.compare_exchange_weak(seen, next)) continue;
    if (taking) {
      if (seen & kAbandoned) waiter.abandoned = true;
      waiter.membership->countTaken(waiter, stripe);
      return true;
    }
    if (!queue.head) queue.fairAt = waiter.since + kFairness;
    waiter.state.store(WaiterState::kWaiting);
    queue.pushBack(waiter);
    return false;
  }
}

bool Table::leave(std::uint32_t stripe, Leave how, Participant* actor, WakeSet& wakes) {
  const Lock lock(shardOf(stripe));
  return leaveLocked(stripe, how, actor, wakes);
}

bool Table::leaveLocked(std::uint32_t stripe, Leave how, Participant* actor, WakeSet& wakes) {
  Word& word = this->word(stripe);
  std::uint32_t seen = word.load();
  for (;;) {
    const std::optional<std::uint32_t> left = afterLeaving(seen, how);
    if (!left) return false;
    const Plan chosen = plan(queueOf(stripe), *left, actor);
    STRIPELOCK_SEAM("leave: before the word changes");
    // Grants are made by this one exchange, so that the stripe is never free in between (I1).
    if (word.compare_exchange_weak(seen, chosen.next)) {
      carryOut(stripe, chosen, wakes);
      return true;
    }
  }
}

Table::Plan Table::plan(StripeQueue& queue, std::uint32_t left, const Participant* actor) const {
  const std::uint32_t bare = left & ~kQueued;
  // The designated waiter looks after the rest (I4).
  if (queue.designated.load()) return {.next = bare};
  Waiter* first = firstEligible(queue.head);
  if (!first) return {.next = bare};
  if (first->shared && !isExclusive(bare)) return planShared(*first, bare);
  if (isFree(bare)) return planExclusive(queue, *first, bare, actor);
  return {.next = bare | kQueued};
}

// All shared waiters up to the first exclusive one enter together. They are chained through nextReady, since who
// is eligible may change until they are granted.
Table::Plan Table::planShared(Waiter& first, std::uint32_t left) const {
  const std::uint32_t room = kHolderMask - (isShared(left) ? holderOf(left) : 0);
  std::uint32_t grants = 0;
  Waiter* last = nullptr;
  Waiter* waiter = &first;
  while (waiter && waiter->shared && grants < room) {
    if (last) last->nextReady = waiter;
    last = waiter;
    ++grants;
    waiter = firstEligible(waiter->next);
  }
  if (grants == 0) return {.next = left | kQueued};
  last->nextReady = nullptr;
  return {.next = ((left | kShared) + grants) | (waiter ? kQueued : 0),
          .grant = &first,
          .fairAt = now() + kFairness};
}

Table::Plan Table::planExclusive(StripeQueue& queue, Waiter& first, std::uint32_t left,
                                 const Participant* actor) const {
  Waiter* chosen = &first;
  const bool alone = queue.head == queue.tail;
  // Granted whatever the time, and then the queue is empty: the clock need not be asked.
  const bool settled = alone && first.async && first.owner == actor;
  const Nanoseconds time = settled ? 0 : now();
  if (!settled && time < queue.fairAt) {
    // A waiter of the releasing thread itself needs no waking.
    Waiter* candidate = first.owner == actor ? nullptr : &first;
    for (int i = 0; candidate && i < kLocalSearch; ++i, candidate = candidate->next) {
      if (candidate->owner != actor || !candidate->async || candidate->shared || !eligible(*candidate))
        continue;
      chosen = candidate;
      break;
    }
    // One of several stripes is not handed over either: until its thread wakes, nobody could use it or the others.
    const bool local = chosen->async && chosen->owner == actor;
    if (!local) return {.next = left, .designate = chosen};
  }
  Plan plan{.next = left | chosen->owner->slot(), .grant = chosen};
  chosen->nextReady = nullptr;
  plan.fairAt = chosen == &first ? time + kFairness : queue.fairAt;
  if (!alone) plan.next |= kQueued;
  return plan;
}

void Table::carryOut(std::uint32_t stripe, const Plan& plan, WakeSet& wakes) {
  StripeQueue& queue = queueOf(stripe);
  if (plan.designate) {
    Waiter& waiter = *plan.designate;
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
    if (plan.next & kAbandoned) waiter->abandoned = true;
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
    owner.pushGranted(waiter);
    wakes.addReady(owner);
  } else {
    wakes.addParked(owner);
    // Last: its thread may return at once, and the waiter be gone.
    waiter.state.store(WaiterState::kGranted);
  }
}

void Table::rollBack(const std::uint32_t* stripes, std::uint32_t count, Participant& owner, bool shared) {
  STRIPELOCK_SEAM("roll back: before the stripes are left");
  for (std::uint32_t i = count; i-- > 0;) {
    WakeSet wakes;
    leave(stripes[i], {.how = Leave::How::kRollBack, .shared = shared, .slot = owner.slot()}, &owner, wakes);
  }
}

Lock Table::lockFor(const Waiter& waiter) {
  for (;;) {
    const std::uint32_t position = waiter.position.load();
    STRIPELOCK_SEAM("find: before the shard");
    Lock lock(shardOf(waiter.stripes[position]));
    if (waiter.position.load() == position) return lock;
  }
}

bool Table::withdraw(Waiter& waiter) {
  WakeSet wakes;
  const Lock lock = lockFor(waiter);
  if (waiter.is(WaiterState::kGranted)) return false;
  const std::uint32_t stripe = waiter.stripe();
  StripeQueue& queue = queueOf(stripe);
  queue.remove(waiter);
  if (queue.designated.load() == &waiter) queue.designated.store(nullptr);
  waiter.state.store(WaiterState::kWithdrawn);
  // Whoever it stood in the way of may enter now: the next in line, or shared ones behind an exclusive one.
  leaveLocked(stripe, {}, waiter.owner, wakes);
  return true;
}

bool Table::retryDesignated(Waiter& waiter) {
  WakeSet wakes;
  const std::uint32_t stripe = waiter.stripe();
  const Lock lock(shardOf(stripe));
  Word& word = this->word(stripe);
  for (;;) {
    if (tryTake(stripe, waiter.owner->slot(), waiter.shared, waiter.abandoned)) {
      waiter.membership->countTaken(waiter, stripe);
      unlinkServed(waiter, stripe, wakes);
      return true;
    }
    STRIPELOCK_SEAM("designated: before it looks again");
    std::uint32_t seen = word.load();
    // Free again: somebody took it and gave it back this instant.
    STRIPELOCK_SEAM("designated: before it sleeps again");
    if (isFree(seen) || !word.compare_exchange_strong(seen, seen | kQueued)) continue;
    queueOf(stripe).designated.store(nullptr);
    waiter.state.store(WaiterState::kWaiting);
    return false;
  }
}

bool Table::overtakeDesignated(Waiter& waiter) {
  const Lock lock = lockFor(waiter);
  if (!waiter.is(WaiterState::kWaiting)) return false;
  const std::uint32_t stripe = waiter.stripe();
  StripeQueue& queue = queueOf(stripe);
  const Waiter* const designated = queue.designated.load();
  if (!designated || !designated->async) return false;
  if (!tryTake(stripe, waiter.owner->slot(), waiter.shared, waiter.abandoned)) return false;
  waiter.membership->countTaken(waiter, stripe);
  queue.remove(waiter);
  waiter.state.store(WaiterState::kGoingOn);
  return true;
}

void Table::serveDesignated(Waiter& waiter) {
  WakeSet wakes;
  const std::uint32_t stripe = waiter.stripe();
  const Lock lock(shardOf(stripe));
  unlinkServed(waiter, stripe, wakes);
}

void Table::unlinkServed(Waiter& waiter, std::uint32_t stripe, WakeSet& wakes) {
  StripeQueue& queue = queueOf(stripe);
  queue.remove(waiter);
  queue.designated.store(nullptr);
  if (queue.head) queue.fairAt = now() + kFairness;
  waiter.state.store(WaiterState::kGoingOn);
  // Sets kQueued for those that go on waiting (keeps I3).
  leaveLocked(stripe, {}, waiter.owner, wakes);
}

void Table::requeue(Waiter& waiter) {
  WakeSet wakes;
  const std::uint32_t stripe = waiter.stripes[0];
  const Lock lock(shardOf(stripe));
  waiter.position.store(0);
  waiter.abandoned = false;
  waiter.state.store(WaiterState::kWaiting);
  StripeQueue& queue = queueOf(stripe);
  if (!queue.head) queue.fairAt = now() + kFairness;
  queue.insertByArrival(waiter);
  // It may be eligible again by now (keeps I3); if it is not, its thread will look after it.
  leaveLocked(stripe, {}, waiter.owner, wakes);
}

}  // namespace stripelock
