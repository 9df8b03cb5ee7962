#include "core/async_waits.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "core/membership.h"
#include "core/participant.h"
#include "core/revocation.h"
#include "core/spin.h"
#include "core/table.h"

namespace stripelock {

AsyncWaits::Started AsyncWaits::start(Membership& membership, const Request& request) {
  Table& table = membership.table();
  // What the fast path took is counted with the rest, when everything is granted.
  membership.countShares(request.stripes, request.taken, request.mode, -1);
  if (request.timeout <= 0) {
    std::uint32_t position = request.taken;
    bool abandoned = false;
    while (position < request.count &&
           table.tryTake(request.stripes[position], owner_.slot(), request.mode, abandoned)) {
      ++position;
    }
    if (position == request.count) {
      membership.countShares(request.stripes, request.count, request.mode, +1);
      return {.status = AsyncStart::kGranted, .abandoned = abandoned};
    }
    table.rollBack(request.stripes, position, owner_, request.mode);
    return {.status = AsyncStart::kTimedOut, .stripe = request.stripes[position]};
  }
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
  // Added before it can be granted, since any thread may grant it as soon as it is linked.
  add(*waiter, Deadline::after(request.timeout, time));
  if (table.proceed(*waiter, request.taken, nullptr, nullptr)) {
    const bool abandoned = waiter->abandoned;
    countAll(*waiter);
    countWaiting(*waiter, -1);
    forget(*waiter);
    destroy(*waiter);
    return {.status = AsyncStart::kGranted, .abandoned = abandoned};
  }
  // Its thread has counted it when it came.
  if (!waiter->comesFirst) membership.count(kContendedCell);
  return {.status = AsyncStart::kPending, .id = waiter->id};
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
  // Most deadlines come in order. Then this is constant time.
  waiter.timed = !deadline.isNever();
  if (waiter.timed) deadlines_.add(waiter, deadline.point());
  if (waiter.count > 1) multiple_.insert(&waiter);
  ++waiter.membership->pending;
  // mutant: N4-unpins-awaited
  waiter.membership->countWaits(waiter.stripes, waiter.count, +1);
  countWaiting(waiter, +1);
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
    // It may still lie in the ready list, but no longer has anything to revoke.
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
      // Only after the ready list was taken: what was taken back from there before sends no wake of its own.
      // mutant: I7-stays-absent
      if (!owner_.comesBack()) break;
      resettle();
      continue;
    }
    if (waiter->is(WaiterState::kGranted)) {
      owner_.delivered();
    } else if (tryDesignated(*waiter)) {
      countWaiting(*waiter, -1);
    } else {
      continue;
    }
    forget(*waiter);
    countAll(*waiter);
    out[taken++] = {.id = waiter->id, .abandoned = waiter->abandoned, .draw = waiter->draw};
    destroy(*waiter);
  }
  return taken;
}

// True: it has all its stripes. Otherwise it still waits.
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

// The waiter's deadline has passed: takes its stripe if that is free. True: it was granted.
bool AsyncWaits::overtake(AsyncWaiter& waiter) {
  Table& table = waiter.membership->table();
  if (!table.overtakeDesignated(waiter)) return false;
  WakeSet wakes;
  return table.proceed(waiter, waiter.position.load() + 1, nullptr, &wakes);
}

std::size_t AsyncWaits::expire(Expired* out, std::size_t room) {
  const Nanoseconds time = now();
  std::size_t taken = 0;
  // Waiters that were granted in time, or may try once more. take() settles them, however late it comes, or they are
  // put back in their queues. They stay out of the heap until this loop ends.
  std::vector<std::pair<Nanoseconds, AsyncWaiter*>> granted;
  while (taken < room && !deadlines_.empty() && deadlines_.leastRank() <= time) {
    AsyncWaiter& waiter = deadlines_.least();
    Table& table = waiter.membership->table();
    // Without this thread's own revoke mutex: two threads that revoke from each other would each wait for the other's.
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
  // Every waiter in the ready list was dropped, here or before. This frees them.
  while (popReady()) {
  }
  waiters_.clear();
  freeIds_.clear();
  for (void* const memory : spare_) ::operator delete(memory);
  spare_.clear();
}

}  // namespace stripelock
