#include "core/table/table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/table/membership.h"
#include "core/table/participant.h"

namespace stripelock {

namespace {

// Enough shards that threads at different stripes rarely contend for one. A table with fewer stripes has fewer shards.
constexpr std::uint32_t kMaxShards = 64;

std::atomic<std::uint64_t> tables{1};

}  // namespace

bool passOver(const Waiter& waiter) {
  // mutant: I3-grants-to-blocked
  return waiter.async && waiter.owner->passOver(waiter.position.load() > 0);
}

Waiter* passOverIneligible(Waiter* from) {
  while (from && passOver(*from)) from = from->next;
  return from;
}

Table::Table(void* memory, std::uint32_t stripes, bool exact, std::uint32_t limit, std::string name,
             std::shared_ptr<Gate> gate)
    : gate_(std::move(gate)),
      memory_(memory),
      words_(static_cast<Word*>(memory)),
      cells_(static_cast<Cell*>(memory)),
      stripes_(stripes),
      limit_(limit),
      name_(std::move(name)),
      id_(tables.fetch_add(1)),
      // Zeroed memory, so stripes without waiters cost nothing.
      queues_(stripes) {
  while (((stripes - 1) >> shardShift_) >= kMaxShards) ++shardShift_;
  shards_ = std::make_unique<Shard[]>(((stripes - 1) >> shardShift_) + 1);
  if (exact) keys_ = std::make_unique<KeyTable>(*this);
}

Table::~Table() = default;

bool Table::tryTake(std::uint32_t stripe, std::uint32_t slot, Mode mode, bool& abandoned) {
  Word& word = this->word(stripe);
  std::uint32_t seen = word.load();
  for (;;) {
    // A thread must not join other holders while an earlier thread waits.
    // mutant: I3-joins-past-waiters
    if (!isFree(seen) && (seen & kQueued) != 0) return false;
    const std::optional<std::uint32_t> next = withHold(seen, mode, slot, limit_);
    if (!next) return false;
    STRIPELOCK_SEAM("take: before the word changes");
    if (word.compare_exchange_weak(seen, *next)) break;
  }
  if (seen & kAbandoned) abandoned = true;
  return true;
}

bool Table::proceed(Waiter& waiter, std::uint32_t from, Mutex* held, WakeSet* wakes) {
  // The shard in which the waiter can be found stays locked until the next shard is locked. Shards are locked in rising
  // order, because stripes ascend.
  Lock last;
  for (std::uint32_t position = from; position < waiter.count; ++position) {
    const std::uint32_t stripe = waiter.stripes[position];
    if (tryTake(stripe, waiter.owner->slot(), waiter.mode, waiter.abandoned)) {
      waiter.membership->countTaken(waiter, stripe);
      continue;
    }
    STRIPELOCK_SEAM("proceed: before the next shard");
    Mutex& shard = shardOf(stripe);
    Lock next;
    // mutant: I5-leaves-shard-early
    if (&shard != held && &shard != last.mutex()) next = Lock(shard);
    STRIPELOCK_SEAM("proceed: before the position changes");
    // The old shard is still locked here. Otherwise a withdrawal could lock that shard, and find the waiter at its old
    // position although the waiter is no longer linked there (preserves I5).
    waiter.position.store(position);
    if (next) last = std::move(next);
    if (!takeOrLink(waiter, stripe)) return false;
  }
  // The shard that a withdrawal would lock is still locked here, so the withdrawal sees the grant (preserves I5).
  if (wakes) complete(waiter, *wakes);
  return true;
}

std::optional<std::uint32_t> Table::wordIfTaken(const Waiter& waiter, std::uint32_t word,
                                                const StripeQueue& queue) const {
  const std::optional<std::uint32_t> next = withHold(word, waiter.mode, waiter.owner->slot(), limit_);
  if (!next || isFree(word)) return next;
  // The waiter must not overtake a waiter with an incompatible mode. Otherwise a stream of shared waiters could keep an
  // exclusive waiter waiting forever.
  Waiter* other = passOverIneligible(queue.head);
  while (other && goTogether(other->mode, waiter.mode)) other = passOverIneligible(other->next);
  return other ? std::nullopt : next;
}

// Call it with the stripe's shard locked. Preserves I3: links the waiter only if kQueued is set or a waiter is
// designated.
bool Table::takeOrLink(Waiter& waiter, std::uint32_t stripe) {
  Word& word = this->word(stripe);
  StripeQueue& queue = queueOf(stripe);
  std::uint32_t seen = word.load();
  for (;;) {
    const std::optional<std::uint32_t> taken = wordIfTaken(waiter, seen, queue);
    std::uint32_t next = taken.value_or(seen);
    // mutant: I3-links-unseen
    if (!taken && !queue.designated.load()) next |= kQueued;
    STRIPELOCK_SEAM("link: before the word changes");
    if (next != seen && !word.compare_exchange_weak(seen, next)) continue;
    if (taken) {
      if (seen & kAbandoned) waiter.abandoned = true;
      waiter.membership->countTaken(waiter, stripe);
      return true;
    }
    if (!queue.head) queue.fairAt = waiter.since + kBargingPeriod;
    waiter.state.store(WaiterState::kWaiting);
    // mutant: I10-stand-in-last
    if (waiter.comesFirst) {
      queue.insertByNumber(waiter);
    } else {
      waiter.arrival = arrivals(stripe).fetch_add(1) + 1;
      queue.pushBack(waiter);
    }
    // The waiters ahead of the new one may no longer be eligible, so the watcher may change (preserves E5).
    // mutant: E5-joins-unseen
    if (gate_ && isCeded(stripe)) gate_->settled(stripe, next, true, true, passOverIneligible(queue.head));
    return false;
  }
}

Lock Table::lockFor(const Waiter& waiter) {
  for (;;) {
    const std::uint32_t position = waiter.position.load();
    STRIPELOCK_SEAM("find: before the shard");
    Lock lock(shardOf(waiter.stripes[position]));
    // mutant: I5-looks-once
    if (waiter.position.load() == position) return lock;
  }
}

bool Table::withdraw(Waiter& waiter) {
  WakeSet wakes;
  const Lock lock = lockFor(waiter);
  // mutant: I5-withdraws-granted
  if (waiter.is(WaiterState::kGranted)) return false;
  const std::uint32_t stripe = waiter.stripe();
  StripeQueue& queue = queueOf(stripe);
  queue.remove(waiter);
  // mutant: I4-leaves-designated
  if (queue.designated.load() == &waiter) queue.designated.store(nullptr);
  waiter.state.store(WaiterState::kWithdrawn);
  // Serves the waiters that this waiter blocked: the next one, or shared waiters behind an exclusive one.
  regrant(stripe, waiter.owner, wakes);
  return true;
}

bool Table::retryDesignated(Waiter& waiter) {
  WakeSet wakes;
  const std::uint32_t stripe = waiter.stripe();
  const Lock lock(shardOf(stripe));
  Word& word = this->word(stripe);
  for (;;) {
    if (tryTake(stripe, waiter.owner->slot(), waiter.mode, waiter.abandoned)) {
      waiter.membership->countTaken(waiter, stripe);
      unlinkServed(waiter, stripe, wakes);
      return true;
    }
    STRIPELOCK_SEAM("designated: before it looks again");
    std::uint32_t seen = word.load();
    // Another thread may have taken and released the stripe, or one of its permits, in the meantime.
    STRIPELOCK_SEAM("designated: before it sleeps again");
    // mutant: P2-sleeps-beside-permit
    const bool canTake = placesFor(seen, waiter.mode, limit_) > 0;
    // mutant: I2-queues-on-free-word
    if (canTake || !word.compare_exchange_strong(seen, seen | kQueued)) continue;
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
  if (!tryTake(stripe, waiter.owner->slot(), waiter.mode, waiter.abandoned)) return false;
  waiter.membership->countTaken(waiter, stripe);
  queue.remove(waiter);
  waiter.state.store(WaiterState::kTaking);
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
  // mutant: fairness-of-earlier-head
  if (queue.head) queue.fairAt = now() + kBargingPeriod;
  waiter.state.store(WaiterState::kTaking);
  // Sets kQueued for the remaining waiters (preserves I3).
  // mutant: I3-served-passes-nobody
  regrant(stripe, waiter.owner, wakes);
}

Gate::Ask Table::askFor(const Waiter& waiter, bool waits) {
  return {.table = *this,
          .stripes = waiter.stripes,
          .count = waiter.count,
          .mode = waiter.mode,
          .since = waiter.since,
          .threadId = waiter.owner->threadId(),
          .waits = waits,
          .blocks = !waiter.async};
}

void Table::cede(Waiter& waiter, std::uint32_t index) {
  const std::uint32_t stripe = waiter.stripes[index];
  const auto put = [&](std::uint32_t at, int by) {
    if (waiter.async)
      waiter.membership->countUnnoticed(&at, 1, waiter.mode, by);
    else
      waiter.membership->countShares(&at, 1, waiter.mode, by);
  };
  const Leave leave{.how = Leave::How::kRollBack, .mode = waiter.mode, .slot = waiter.owner->slot()};
  for (std::uint32_t i = waiter.count; i-- > index + 1;) {
    WakeSet wakes;
    this->leave(waiter.stripes[i], leave, waiter.owner, wakes);
    put(waiter.stripes[i], -1);
  }
  STRIPELOCK_SEAM("cede: before it queues");
  {
    WakeSet wakes;
    const Lock lock(shardOf(stripe));
    StripeQueue& queue = queueOf(stripe);
    waiter.position.store(index);
    waiter.abandoned = false;
    if (waiter.count > 1) waiter.arrival = arrivals(stripe).load();
    waiter.state.store(WaiterState::kWaiting);
    if (!queue.head) queue.fairAt = now() + kBargingPeriod;
    queue.insertByArrival(waiter);
    put(stripe, -1);
    Leave ceding = leave;
    ceding.cedes = true;
    changeAndGrant(stripe, &ceding, waiter.owner, wakes);
  }
  gate_->ceded(stripe, waiter.async ? nullptr : waiter.owner);
}

void Table::reopen(std::uint32_t stripe) {
  WakeSet wakes;
  const Lock lock(shardOf(stripe));
  const Leave leave{.how = Leave::How::kRollBack, .slot = kElsewhere};
  const bool isClosed = std::exchange(queueOf(stripe).closed, false);
  // If readers of this process still hold the stripe, other readers may join them now.
  if (!changeAndGrant(stripe, &leave, nullptr, wakes) && isClosed) regrant(stripe, nullptr, wakes);
}

Table::Awaited Table::awaited(std::uint32_t stripe) {
  const Lock lock(shardOf(stripe));
  const Waiter* const first = isCeded(stripe) ? passOverIneligible(queueOf(stripe).head) : nullptr;
  if (!first) return {};
  return {true, isCounted(first->mode), first->since, first->owner->threadId()};
}

void Table::requeue(Waiter& waiter) {
  WakeSet wakes;
  const std::uint32_t stripe = waiter.stripes[0];
  const Lock lock(shardOf(stripe));
  waiter.position.store(0);
  waiter.abandoned = false;
  // The arrival number of a waiter for several stripes may come from another stripe's queue.
  if (waiter.count > 1) waiter.arrival = arrivals(stripe).load();
  waiter.state.store(WaiterState::kWaiting);
  StripeQueue& queue = queueOf(stripe);
  if (!queue.head) queue.fairAt = now() + kBargingPeriod;
  // mutant: I7-loses-its-place
  queue.insertByArrival(waiter);
  // Serves the waiter if it is eligible again by now (preserves I3). If not, its thread serves it later.
  // mutant: I3-back-unseen
  regrant(stripe, waiter.owner, wakes);
}

}  // namespace stripelock
