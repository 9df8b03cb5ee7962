#include "core/table/async_waits.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "core/base/spin.h"
#include "core/table/membership.h"
#include "core/table/participant.h"
#include "core/table/revocation.h"
#include "core/table/table.h"

namespace stripelock {

AsyncWaits::Started AsyncWaits::attempt(Membership& membership, const Request& request) {
  Table& table = membership.table();
  std::uint32_t position = request.taken;
  bool abandoned = false;
  while (position < request.count &&
         table.tryTake(request.stripes[position], owner_.slot(), request.mode, abandoned)) {
    ++position;
  }
  const bool hasAll = position == request.count;
  Gate::Entry entry;
  // mutant: E1-enters-without-words
  if (hasAll && table.gate() != nullptr) {
    entry = table.gate()->enter({.table = table,
                                 .stripes = request.stripes,
                                 .count = request.count,
                                 .mode = request.mode,
                                 .since = 0,
                                 .threadId = owner_.threadId(),
                                 .waits = false,
                                 .blocks = false});
  }
  if (hasAll && entry.how == Gate::Entry::How::kEntered) {
    membership.countShares(request.stripes, request.count, request.mode, +1);
    return {.status = AsyncStart::kGranted, .abandoned = abandoned || entry.abandoned, .error = {}};
  }
  table.rollBack(request.stripes, position, owner_, request.mode);
  if (entry.error) return {.status = AsyncStart::kFailed, .error = entry.error};
  const std::uint32_t unavailable = hasAll ? entry.refused : position;
  return {.status = AsyncStart::kTimedOut, .stripe = request.stripes[unavailable], .error = {}};
}

AsyncWaits::Started AsyncWaits::start(Membership& membership, const Request& request) {
  Table& table = membership.table();
  // Removes the counts of the stripes that the fast path took, because all stripes are counted when the request is
  // granted.
  membership.countShares(request.stripes, request.taken, request.mode, -1);
  if (request.timeout <= 0) return attempt(membership, request);
  AsyncWaiter* const waiter = &make();
  waiter->membership = &membership;
  waiter->owner = &owner_;
  waiter->count = request.count;
  waiter->mode = request.mode;
  waiter->async = true;
  waiter->mayGiveUp = !std::isinf(request.timeout);
  const Nanoseconds time = now();
  waiter->comesFirst = request.waited >= 0;
  waiter->since = time;
  if (waiter->comesFirst) {
    waiter->since = Deadline::after(-request.waited, time).point();
    const std::uint32_t arrivals = table.arrivals(request.stripes[0]).load();
    waiter->arrival = arrivals - ((arrivals - request.arrival) & kArrivalMask);
  }
  if (request.note) {
    waiter->ownNote = std::make_unique<const std::string>(*request.note);
    waiter->note = waiter->ownNote.get();
  }
  if (request.count == 1) {
    waiter->only = request.stripes[0];
    waiter->stripes = &waiter->only;
  } else {
    waiter->many = std::make_unique<std::uint32_t[]>(request.count);
    std::copy_n(request.stripes, request.count, waiter->many.get());
    waiter->stripes = waiter->many.get();
  }
  membership.countUnnoticed(waiter->stripes, request.taken, request.mode, +1);
  // The waiter is added before it is linked, because any thread may grant a linked waiter.
  add(*waiter, Deadline::after(request.timeout, time));
  if (table.proceed(*waiter, request.taken, nullptr, nullptr)) {
    const Gate::Entry entry = enterOrCede(*waiter);
    if (entry.how != Gate::Entry::How::kRefused) {
      const bool abandoned = waiter->abandoned;
      if (entry.error)
        rollBack(*waiter, waiter->count);
      else
        countAll(*waiter);
      forget(*waiter);
      destroy(*waiter);
      if (entry.error) return {.status = AsyncStart::kFailed, .error = entry.error};
      return {.status = AsyncStart::kGranted, .abandoned = abandoned, .error = {}};
    }
  }
  STRIPELOCK_SEAM("start: before it counts as waiting");
  countWaiting(*waiter, +1);
  // An acquisition that first waited in JavaScript was counted as contended when it arrived.
  if (!waiter->comesFirst) membership.count(kContendedCell);
  return {.status = AsyncStart::kPending, .id = waiter->id, .error = {}};
}

Gate::Entry AsyncWaits::enterOrCede(AsyncWaiter& waiter) {
  Table& table = waiter.membership->table();
  if (!table.gate()) return {};
  const Gate::Entry entry = table.gate()->enter(table.askFor(waiter, true));
  if (entry.abandoned) waiter.abandoned = true;
  if (entry.how == Gate::Entry::How::kRefused) table.cede(waiter, entry.refused);
  return entry;
}

AsyncWaits::AsyncWaiter& AsyncWaits::make() {
  if (spare_.empty()) return *new AsyncWaiter;
  void* const memory = spare_.back();
  spare_.pop_back();
  return *new (memory) AsyncWaiter;
}

void AsyncWaits::destroy(AsyncWaiter& waiter) {
  if (spare_.size() >= kMostSpare) {
    delete &waiter;
  } else {
    waiter.~AsyncWaiter();
    spare_.push_back(&waiter);
  }
}

void AsyncWaits::add(AsyncWaiter& waiter, Deadline deadline) {
  if (freeIds_.empty()) {
    waiter.id = static_cast<std::uint32_t>(waiters_.size());
    waiters_.push_back(&waiter);
  } else {
    waiter.id = freeIds_.back();
    freeIds_.pop_back();
    waiters_[waiter.id] = &waiter;
  }
  // Most deadlines are added in ascending order, which takes constant time.
  waiter.timed = !deadline.isNever();
  if (waiter.timed) deadlines_.add(waiter, deadline.point());
  if (waiter.count > 1) multiple_.insert(&waiter);
  ++waiter.membership->pending;
  // mutant: N4-unpins-awaited
  waiter.membership->countWaits(waiter.stripes, waiter.count, +1);
}

void AsyncWaits::forget(AsyncWaiter& waiter) {
  --waiter.membership->pending;
  waiter.membership->countWaits(waiter.stripes, waiter.count, -1);
  waiters_[waiter.id] = nullptr;
  freeIds_.push_back(waiter.id);
  if (waiter.timed) deadlines_.remove(waiter);
  if (waiter.count > 1) multiple_.erase(&waiter);
}

bool AsyncWaits::cancel(std::uint32_t id) {
  if (id >= waiters_.size() || !waiters_[id]) return false;
  AsyncWaiter& waiter = *waiters_[id];
  drop(waiter);
  return true;
}

void AsyncWaits::drop(AsyncWaiter& waiter) {
  const Lock revoking(owner_.revokeMutex());
  Table& table = waiter.membership->table();
  forget(waiter);
  STRIPELOCK_SEAM("drop: before withdrawing");
  if (table.withdraw(waiter)) {
    countWaiting(waiter, -1);
    rollBack(waiter, waiter.position.load());
  } else {
    STRIPELOCK_SEAM("drop: before giving back");
    giveBack(waiter);
    // The waiter may still be in the ready list, but it no longer has anything to revoke.
    waiter.state.store(WaiterState::kWithdrawn);
  }
  dispose(waiter);
}

void AsyncWaits::dispose(AsyncWaiter& waiter) {
  if (waiter.ready) {
    waiter.dropped = true;
  } else {
    destroy(waiter);
  }
}

AsyncWaits::AsyncWaiter* AsyncWaits::popReady() {
  for (;;) {
    if (!ready_) ready_ = owner_.takeReady();
    if (!ready_) return nullptr;
    auto& waiter = static_cast<AsyncWaiter&>(*ready_);
    ready_ = waiter.nextReady;
    waiter.ready = false;
    if (!waiter.dropped) return &waiter;
    destroy(waiter);
  }
}

bool AsyncWaits::hasReady() const { return ready_ || owner_.hasReady(); }

std::size_t AsyncWaits::take(Granted* out, std::size_t room) {
  std::size_t taken = 0;
  STRIPELOCK_SEAM("take: before it looks");
  while (taken < room) {
    AsyncWaiter* const waiter = popReady();
    if (!waiter) {
      // Call comesBack() only after popReady() has emptied the ready list: see Participant::comesBack().
      // mutant: I7-stays-absent
      if (!owner_.comesBack()) break;
      resettle();
      continue;
    }
    const bool granted = waiter->is(WaiterState::kGranted);
    if (!granted && !tryDesignated(*waiter)) continue;
    const Gate::Entry entry = enterOrCede(*waiter);
    const bool refused = entry.how == Gate::Entry::How::kRefused;
    // delivered() must follow enterOrCede(), because that call releases the words of a refused grant. complete() has
    // already counted a granted waiter as no longer waiting; a designated waiter still counts as waiting.
    if (granted) owner_.delivered();
    if (granted == refused) countWaiting(*waiter, refused ? +1 : -1);
    if (refused) continue;
    if (entry.error)
      rollBack(*waiter, waiter->count);
    else
      countAll(*waiter);
    forget(*waiter);
    out[taken++] = {waiter->id, waiter->abandoned, waiter->draw, entry.error};
    destroy(*waiter);
  }
  return taken;
}

// Returns true if the waiter now has all its stripes. Otherwise it still waits.
bool AsyncWaits::tryDesignated(AsyncWaiter& waiter) {
  Table& table = waiter.membership->table();
  const std::uint32_t stripe = waiter.stripe();
  STRIPELOCK_SEAM("designated: before it tries");
  if (spin([&] { return table.tryTake(stripe, owner_.slot(), waiter.mode, waiter.abandoned); })) {
    table.serveDesignated(waiter);
  } else if (!table.retryDesignated(waiter)) {
    return false;
  }
  return table.proceed(waiter, waiter.position.load() + 1, nullptr, nullptr);
}

// Call it after the waiter's deadline. Takes the waiter's stripe if it is free, and then the rest. Returns true if the
// waiter was granted.
bool AsyncWaits::overtake(AsyncWaiter& waiter) {
  Table& table = waiter.membership->table();
  if (!table.overtakeDesignated(waiter)) return false;
  WakeSet wakes;
  return table.proceed(waiter, waiter.position.load() + 1, nullptr, &wakes);
}

std::size_t AsyncWaits::expire(Expired* out, std::size_t room) {
  const Nanoseconds time = now();
  std::size_t taken = 0;
  // Waiters that were granted in time, or may try once more. take() settles or requeues them later. They stay out of
  // the heap until this loop ends.
  std::vector<std::pair<Nanoseconds, AsyncWaiter*>> granted;
  while (taken < room && !deadlines_.empty() && deadlines_.leastRank() <= time) {
    AsyncWaiter& waiter = deadlines_.least();
    Table& table = waiter.membership->table();
    // This thread revokes before it locks its own revoke mutex. Otherwise two threads that revoke from each other could
    // deadlock.
    const bool mayTry = revokeIdle(table, waiter.stripe(), owner_, true) && !waiter.is(WaiterState::kWaiting);
    STRIPELOCK_SEAM("expire: before withdrawing");
    const Lock revoking(owner_.revokeMutex());
    if (mayTry || overtake(waiter) || !table.withdraw(waiter)) {
      granted.emplace_back(deadlines_.leastRank(), &waiter);
      deadlines_.remove(waiter);
      continue;
    }
    const std::uint32_t position = waiter.position.load();
    out[taken++] = {.id = waiter.id, .stripe = waiter.stripes[position]};
    forget(waiter);
    countWaiting(waiter, -1);
    rollBack(waiter, position);
    dispose(waiter);
  }
  for (const auto& [deadline, waiter] : granted) deadlines_.add(*waiter, deadline);
  return taken;
}

Deadline AsyncWaits::nextDeadline() const {
  return deadlines_.empty() ? Deadline::never() : Deadline::at(deadlines_.leastRank());
}

void AsyncWaits::closeMembership(const Membership& membership) {
  for (AsyncWaiter* waiter : std::vector<AsyncWaiter*>(waiters_)) {
    if (waiter && waiter->membership == &membership) drop(*waiter);
  }
}

void AsyncWaits::close() {
  for (AsyncWaiter* waiter : std::vector<AsyncWaiter*>(waiters_)) {
    if (waiter) drop(*waiter);
  }
  // All waiters in the ready list were dropped, here or earlier. This loop frees them.
  while (popReady()) {
  }
  waiters_.clear();
  freeIds_.clear();
  for (void* const memory : spare_) ::operator delete(memory);
  spare_.clear();
}

}  // namespace stripelock
