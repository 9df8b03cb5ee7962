#include "core/table/sync_wait.h"

#include <algorithm>
#include <utility>

#include "core/base/spin.h"
#include "core/table/participant.h"
#include "core/table/revocation.h"
#include "core/table/wait_graph.h"

namespace stripelock {

namespace {

// Marks the thread as blocked in a sync wait.
class BlockedScope {
 public:
  explicit BlockedScope(Participant& thread) : thread_(thread) { thread_.block(); }
  ~BlockedScope() { thread_.unblock(); }
  BlockedScope(const BlockedScope&) = delete;
  BlockedScope& operator=(const BlockedScope&) = delete;

 private:
  Participant& thread_;
};

// Counts the thread as waiting during the lifetime of this object. The destructor also removes the thread from the wait
// graph.
class WaitingScope {
 public:
  WaitingScope(Table& table, Participant& thread) : table_(table), thread_(thread) {
    table_.cell(kContendedCell).fetch_add(1);
    table_.cell(kWaitingCell).fetch_add(1);
  }
  ~WaitingScope() {
    WaitGraph::instance().leave(thread_);
    table_.cell(kWaitingCell).fetch_sub(1);
  }
  WaitingScope(const WaitingScope&) = delete;
  WaitingScope& operator=(const WaitingScope&) = delete;

 private:
  Table& table_;
  Participant& thread_;
};

std::atomic<Nanoseconds> hurryUntil{0};

}  // namespace

bool hurrying(Nanoseconds time) { return time < hurryUntil.load(); }
void hurryOthers(Nanoseconds time) { hurryUntil.store(time + kHurry); }

SyncWait::SyncWait(Membership& membership, const Request& request, Interrupt interrupt)
    : membership_(membership),
      table_(membership.table()),
      thread_(membership.participant()),
      request_(request),
      interrupt_(interrupt),
      deadline_(request.timeout > 0 ? Deadline::after(request.timeout) : Deadline::at(0)) {
  waiter_.membership = &membership;
  waiter_.owner = &thread_;
  waiter_.stripes = request.stripes;
  waiter_.count = request.count;
  waiter_.mode = request.mode;
  waiter_.note = request.note;
}

SyncOutcome SyncWait::run() {
  const std::uint32_t position = spinTakeFrom(request_.taken);
  // mutant: asks-as-if-it-did-not-wait
  if (position == request_.count && enter(request_.timeout > 0)) return granted();
  if (request_.timeout <= 0) return failed(Status::kTimedOut, position);
  return block(position);
}

std::uint32_t SyncWait::spinTakeFrom(std::uint32_t position) {
  while (position < request_.count && spinTake(request_.stripes[position])) ++position;
  return position;
}

bool SyncWait::spinTake(std::uint32_t stripe) {
  if (request_.timeout <= 0) return take(stripe);
  const auto attempt = [&] { return take(stripe); };
  if (spin(attempt)) return true;
  // Stops at the deadline. Also stops while other threads wait, because this thread could overtake them again and
  // again.
  const auto worthwhile = [&] { return !table_.isAwaited(stripe) && !deadline_.passedAt(now()); };
  return thread_.patience.spin(attempt, worthwhile) || yieldFor(attempt, worthwhile);
}

bool SyncWait::take(std::uint32_t stripe) {
  if (!table_.tryTake(stripe, thread_.slot(), waiter_.mode, waiter_.abandoned)) return false;
  membership_.countTaken(waiter_, stripe);
  return true;
}

SyncOutcome SyncWait::block(std::uint32_t position) {
  const BlockedScope blocked(thread_);
  std::uint32_t own = 0;
  if (waitsForItself(position, own)) {
    SyncOutcome outcome = failed(Status::kDeadlock, position);
    outcome.cycle.emplace_back(thread_.threadId(), table_, own);
    return outcome;
  }
  waiter_.since = now();
  // With all stripes, the gate has already refused stripes[refused_].
  // mutant: asks-the-gate-twice
  const bool isRefused = position == request_.count;
  if (isRefused)
    table_.cede(waiter_, refused_);
  else if (table_.proceed(waiter_, position, nullptr, nullptr) && enterOrCede())
    return granted();
  return wait();
}

bool SyncWait::enter(bool waits) {
  Gate* const gate = table_.gate();
  if (!gate) return true;
  const Gate::Entry entry = gate->enter(table_.askFor(waiter_, waits));
  refused_ = entry.refused;
  error_ = entry.error;
  entered_ = entry.how == Gate::Entry::How::kEntered;
  if (entry.abandoned) waiter_.abandoned = true;
  return entry.how != Gate::Entry::How::kRefused;
}

bool SyncWait::enterOrCede() {
  if (enter(true)) return true;
  // The waiter will be linked at another stripe, so its thread first leaves the graph.
  WaitGraph::instance().leave(thread_);
  table_.cede(waiter_, refused_);
  return false;
}

SyncOutcome SyncWait::wait() {
  Status status = sleep();
  // The gate's thread must now watch the ceded stripe, but the system may have been unable to start that thread. So
  // this thread checks the stripe once more.
  if (table_.gate() && status != Status::kGranted) table_.gate()->look(waiter_.stripe());
  const bool hasAll = status == Status::kGranted || waiter_.is(WaiterState::kGranted);
  const std::uint32_t held = hasAll ? request_.count : waiter_.position.load();
  // A thread that will run no more JavaScript must not keep a grant, because it would never release it.
  // mutant: ended-keeps-grant
  if (status == Status::kGranted && isEnding()) status = Status::kInterrupted;
  SyncOutcome outcome = status == Status::kGranted ? granted() : failed(status, held);
  outcome.waited = true;
  thread_.draw = waiter_.draw;
  outcome.cycle = std::move(cycle_);
  return outcome;
}

// check() also detects that the script is being ended. That takes up to 8 us, and a whole hand-over takes 20 us. So
// check() is called only after the first slice. A script that is ended during a shorter wait keeps its stripes, like a
// script that is ended after its wait.
bool SyncWait::isEnding() const { return slept_ ? interrupt_.check() : interrupt_.checkEnding(); }

SyncWait::Status SyncWait::sleep() {
  const WaitingScope waiting(table_, thread_);
  Gate* const gate = table_.gate();
  Gate* lastLook = gate;
  Nanoseconds poll = 0;
  sliceEnd_ = waiter_.since + seamSlice(kFirstSlice);
  while (!advance()) {
    const Nanoseconds time = now();
    if (deadline_.passedAt(time)) {
      STRIPELOCK_SEAM("wait: before it times out");
      // mutant: times-out-at-free-stripe
      if (overtake(true)) continue;
      if (std::exchange(lastLook, nullptr)) {
        gate->look(waiter_.stripe());
        continue;
      }
      if (table_.withdraw(waiter_)) return Status::kTimedOut;
      continue;
    }
    if (time >= sliceEnd_) {
      const Status status = checkSlice(time);
      if (status != Status::kGranted) return status;
      if (overtake(false)) continue;
    }
    STRIPELOCK_SEAM("wait: before parking");
    const Deadline until = Deadline::at(std::min(sliceEnd_, deadline_.point()));
    if (!gate || !gate->sleep(table_.askFor(waiter_, true), waiter_.stripe(), thread_, until, poll))
      thread_.parker().park(until);
    // mutant: blocked-keeps-grants
    if (thread_.asyncWaits().hasReady()) thread_.asyncWaits().reclaim();
  }
  return Status::kGranted;
}

bool SyncWait::advance() {
  if (waiter_.is(WaiterState::kGranted)) return enterOrCede();
  if (waiter_.is(WaiterState::kDesignated) && !tryDesignated()) return false;
  return waiter_.is(WaiterState::kTaking) && takeRest() && enterOrCede();
}

SyncWait::Status SyncWait::checkSlice(Nanoseconds time) {
  sliceEnd_ = time + seamSlice(hurrying(time) ? kHurriedSlice : kSlice);
  const bool first = !std::exchange(slept_, true);
  if (interrupt_.check()) {
    hurryOthers(now());
    // If withdraw() fails, the waiter was granted meanwhile, and the caller gives the grant back.
    static_cast<void>(table_.withdraw(waiter_));
    return Status::kInterrupted;
  }
  // Lets shared waiters pass an exclusive async waiter of this blocked thread. This runs only after the first slice,
  // because most waits end sooner, and resettle() visits all pending acquisitions.
  if (first) thread_.asyncWaits().resettle();
  cycle_ = WaitGraph::instance().refuse(thread_, waiter_);
  return cycle_.empty() ? Status::kGranted : Status::kDeadlock;
}

bool SyncWait::overtake(bool last) {
  // Just before the timeout, first tries to take a free stripe, because a revoked turn may go to another waiter.
  if (last && table_.overtakeDesignated(waiter_)) return true;
  return revokeIdle(table_, waiter_.stripe(), thread_, last) || table_.overtakeDesignated(waiter_);
}

bool SyncWait::takeRest() {
  STRIPELOCK_SEAM("go on: before the next stripe");
  return table_.proceed(waiter_, spinTakeFrom(waiter_.position.load() + 1), nullptr, nullptr);
}

bool SyncWait::tryDesignated() {
  STRIPELOCK_SEAM("designated: before it tries");
  if (!spinTake(waiter_.stripe())) return table_.retryDesignated(waiter_);
  STRIPELOCK_SEAM("designated: before it leaves the queue");
  table_.serveDesignated(waiter_);
  return true;
}

bool SyncWait::waitsForItself(std::uint32_t position, std::uint32_t& stripe) {
  for (std::uint32_t i = position; i < request_.count; ++i) {
    stripe = request_.stripes[i];
    if (holdsForGood(stripe)) return true;
    const std::uint32_t shares = membership_.sharesOf(stripe);
    if (shares == 0) continue;
    if (hasPermits(table_.limit())) {
      // While another thread has one of the permits, that thread may release it.
      if (shares >= table_.limit()) return true;
      continue;
    }
    if (!goTogether(kCountedMode, request_.mode)) return true;
    // A second shared hold would wait behind a queued writer, which waits for the first hold.
    const Lock lock(table_.shardOf(stripe));
    for (Waiter* other = passOverIneligible(table_.queueOf(stripe).head); other;
         other = passOverIneligible(other->next)) {
      if (!goTogether(other->mode, request_.mode) && !other->mayGiveUp) return true;
    }
  }
  return false;
}

bool SyncWait::holdsForGood(std::uint32_t stripe) {
  while (isHeldAloneBy(table_.word(stripe).load(), thread_.slot())) {
    {
      // The shard is locked, so that no grant to an async waiter of this thread is in progress.
      const Lock lock(table_.shardOf(stripe));
      // mutant: graph-own-undelivered
      if (thread_.undelivered() == 0) return isHeldAloneBy(table_.word(stripe).load(), thread_.slot());
    }
    thread_.asyncWaits().reclaim();
  }
  return false;
}

SyncOutcome SyncWait::failed(Status status, std::uint32_t position) {
  if (std::exchange(entered_, false) && table_.gate()) {
    const Leave leave{.how = Leave::How::kRollBack, .mode = request_.mode, .slot = thread_.slot()};
    for (std::uint32_t i = request_.count; i-- > 0;) {
      WakeSet wakes;
      // The next holder sees the same value of `abandoned`.
      table_.leaveEntered(request_.stripes[i], leave, waiter_.abandoned, &thread_, wakes);
    }
  } else {
    table_.rollBack(request_.stripes, position, thread_, request_.mode);
  }
  membership_.countShares(request_.stripes, position, request_.mode, -1);
  const std::uint32_t unavailable = position == request_.count ? refused_ : position;
  return {.status = status, .stripe = request_.stripes[unavailable], .error = error_, .cycle = {}};
}

}  // namespace stripelock
