#include "core/table.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/membership.h"
#include "core/participant.h"

namespace stripelock {

namespace {

// Enough that threads at different stripes rarely contend, few enough to cost nothing in a small lock.
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

void Table::Freed::operator()(StripeQueue* queues) const { std::free(queues); }

Table::Table(void* memory, std::uint32_t stripes, bool exact, std::uint32_t limit, std::string name)
    : memory_(memory),
      words_(static_cast<Word*>(memory)),
      cells_(static_cast<Cell*>(memory)),
      stripes_(stripes),
      limit_(limit),
      name_(std::move(name)),
      id_(tables.fetch_add(1)),
      // calloc takes large blocks as untouched zero pages, so stripes that are never waited for cost nothing.
      queues_(static_cast<StripeQueue*>(std::calloc(stripes, sizeof(StripeQueue)))) {
  // Operator new does the same with exceptions disabled.
  if (!queues_) std::abort();
  while (((stripes - 1) >> shardShift_) >= kMaxShards) ++shardShift_;
  shards_ = std::make_unique<Shard[]>(((stripes - 1) >> shardShift_) + 1);
  if (exact) keys_ = std::make_unique<KeyTable>(*this);
}

Table::~Table() = default;

bool Table::tryTake(std::uint32_t stripe, std::uint32_t slot, Mode mode, bool& abandoned) {
  Word& word = this->word(stripe);
  std::uint32_t seen = word.load();
  for (;;) {
    // A thread that would join other holders does not enter past waiters.
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
  // Keeps the shard under which the waiter can be found until the next one is locked. Shards are locked in
  // rising order since stripes are.
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
    // While the shard that it leaves is still locked. Otherwise a withdrawal could think it is linked there (keeps I5).
    waiter.position.store(position);
    if (next) last = std::move(next);
    if (!takeOrLink(waiter, stripe)) return false;
  }
  // Still under the shard where a withdrawal would look for it, so that it finds it granted (keeps I5).
  if (wakes) complete(waiter, *wakes);
  return true;
}

std::optional<std::uint32_t> Table::wordIfTaken(const Waiter& waiter, std::uint32_t word,
                                                const StripeQueue& queue) const {
  const std::optional<std::uint32_t> next = withHold(word, waiter.mode, waiter.owner->slot(), limit_);
  if (!next || isFree(word)) return next;
  // It does not pass a waiter that it does not go together with. Otherwise a stream of shared waiters could keep an
  // exclusive one waiting forever.
  Waiter* other = passOverIneligible(queue.head);
  while (other && goTogether(other->mode, waiter.mode)) other = passOverIneligible(other->next);
  return other ? std::nullopt : next;
}

// Under the stripe's shard. Keeps I3: links only after kQueued is set or with a designated waiter on its way.
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
    if (!queue.head) queue.fairAt = waiter.since + kFairness;
    waiter.state.store(WaiterState::kWaiting);
    // mutant: I10-stand-in-last
    if (waiter.comesFirst) {
      queue.insertByNumber(waiter);
    } else {
      waiter.arrival = arrivals(stripe).fetch_add(1) + 1;
      queue.pushBack(waiter);
    }
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
  // Waiters that it blocked may enter now: the next in line, or shared ones behind an exclusive one.
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
    // Free again, or one of its permits is: another thread took it and gave it back in the meantime.
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
  if (queue.head) queue.fairAt = now() + kFairness;
  waiter.state.store(WaiterState::kTaking);
  // Sets kQueued for those that go on waiting (keeps I3).
  // mutant: I3-served-passes-nobody
  regrant(stripe, waiter.owner, wakes);
}

void Table::requeue(Waiter& waiter) {
  WakeSet wakes;
  const std::uint32_t stripe = waiter.stripes[0];
  const Lock lock(shardOf(stripe));
  waiter.position.store(0);
  waiter.abandoned = false;
  // Otherwise its number is of another stripe.
  if (waiter.count > 1) waiter.arrival = arrivals(stripe).load();
  waiter.state.store(WaiterState::kWaiting);
  StripeQueue& queue = queueOf(stripe);
  if (!queue.head) queue.fairAt = now() + kFairness;
  // mutant: I7-loses-its-place
  queue.insertByArrival(waiter);
  // It may be eligible again by now (keeps I3); if it is not, its thread will look after it.
  // mutant: I3-back-unseen
  regrant(stripe, waiter.owner, wakes);
}

}  // namespace stripelock
