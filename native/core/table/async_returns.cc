// Gives back grants that a thread has not collected, because it blocks or does not run its event loop. The
// acquisitions then wait again.

#include <algorithm>

#include "core/table/async_waits.h"
#include "core/table/membership.h"
#include "core/table/participant.h"
#include "core/table/revocation.h"
#include "core/table/table.h"

namespace stripelock {

namespace {

// Whether this waiter in a ready list keeps other threads from the stripe. Call it with its owner's revoke mutex
// locked.
bool concerns(const Waiter& waiter, const Table& table, std::uint32_t stripe) {
  const bool granted = waiter.is(WaiterState::kGranted);
  // Waiters in other states were dropped, and their membership may no longer exist.
  if (!granted && !waiter.is(WaiterState::kDesignated)) return false;
  if (&waiter.membership->table() != &table) return false;
  // The position of a designated waiter does not change.
  const std::uint32_t held = granted ? waiter.count : waiter.position.load() + 1;
  return std::binary_search(waiter.stripes, waiter.stripes + held, stripe);
}

bool isRevocable(const Waiter& waiter, Nanoseconds time, bool last) {
  if (last && waiter.revoked == 0) return true;
  return time - waiter.readyAt >= (kRevokeAfter << waiter.revoked);
}

}  // namespace

void AsyncWaits::countAll(const AsyncWaiter& waiter) {
  waiter.membership->countShares(waiter.stripes, waiter.count, waiter.mode, +1);
  waiter.membership->countUnnoticed(waiter.stripes, waiter.count, waiter.mode, -1);
}

void AsyncWaits::countWaiting(const AsyncWaiter& waiter, int by) {
  waiter.membership->count(kWaitingCell, by);
}

void AsyncWaits::rollBack(const AsyncWaiter& waiter, std::uint32_t count) {
  waiter.membership->table().rollBack(waiter.stripes, count, owner_, waiter.mode);
  waiter.membership->countUnnoticed(waiter.stripes, count, waiter.mode, -1);
}

// Releases all stripes of a granted waiter.
void AsyncWaits::giveBack(AsyncWaiter& waiter) {
  rollBack(waiter, waiter.count);
  // The last step, because the words name this thread as the holder until they are rolled back.
  owner_.delivered();
}

void AsyncWaits::reclaim() {
  const Lock revoking(owner_.revokeMutex());
  reclaimReady();
  for (AsyncWaiter* waiter : multiple_) reclaimPartial(*waiter);
  // Another thread may have chosen one of these waiters before this thread was marked as blocked, and granted the
  // waiter after the loop had passed it.
  reclaimReady();
}

void AsyncWaits::reclaimReady() {
  while (AsyncWaiter* const waiter = popReady()) putBack(*waiter);
}

// Requeues a waiter that was removed from the ready list.
void AsyncWaits::putBack(AsyncWaiter& waiter) {
  if (!waiter.is(WaiterState::kGranted)) {
    // The waiter was designated. Now the next waiter is designated instead.
    putOff(waiter);
    return;
  }
  giveBack(waiter);
  countWaiting(waiter, +1);
  STRIPELOCK_SEAM("put back: before queueing again");
  waiter.membership->table().requeue(waiter);
}

void AsyncWaits::reclaimPartial(AsyncWaiter& waiter) {
  Table& table = waiter.membership->table();
  {
    const Lock lock = table.lockFor(waiter);
    // reclaimReady() gives back designated and granted waiters.
    if (!waiter.is(WaiterState::kWaiting) || waiter.position.load() == 0) return;
  }
  STRIPELOCK_SEAM("reclaim: before withdrawing");
  // Only this thread releases the waiter's stripes. By now the waiter may hold more of them, or be granted.
  putOff(waiter);
}

void AsyncWaits::putOff(AsyncWaiter& waiter) {
  Table& table = waiter.membership->table();
  if (!table.withdraw(waiter)) return;
  rollBack(waiter, waiter.position.load());
  STRIPELOCK_SEAM("put back: before queueing again");
  table.requeue(waiter);
}

void AsyncWaits::revokeIdleGrants() {
  const Table* lastTable = nullptr;
  std::uint32_t lastStripe = 0;
  for (AsyncWaiter* waiter : waiters_) {
    if (!waiter || !waiter->is(WaiterState::kWaiting)) continue;
    Table& table = waiter->membership->table();
    const std::uint32_t stripe = waiter->stripe();
    // Often many waiters in a row wait for the same stripe.
    // mutant: I7-one-lock-only
    if (&table == lastTable && stripe == lastStripe) continue;
    lastTable = &table;
    lastStripe = stripe;
    revokeIdle(table, stripe, owner_, false);
  }
}

bool AsyncWaits::revoke(const Table& table, std::uint32_t stripe, bool last) {
  bool any = false;
  {
    // If the mutex is locked, another thread is working on the owner's waiters. Usually it is the owner's own thread,
    // so the owner is not away from its event loop.
    Lock revoking(owner_.revokeMutex(), std::defer_lock);
    if (last) {
      revoking.lock();
    } else if (!revoking.try_lock()) {
      return false;
    }
    const Nanoseconds time = now();
    const auto matches = [&](const Waiter& waiter) {
      return concerns(waiter, table, stripe) && isRevocable(waiter, time, last);
    };
    while (Waiter* const found = owner_.takeBack(matches)) {
      any = true;
      auto& waiter = static_cast<AsyncWaiter&>(*found);
      if (waiter.revoked < kMostRevoked) ++waiter.revoked;
      STRIPELOCK_SEAM("revoke: before giving back");
      putBack(waiter);
    }
  }
  // takeBack() has marked the thread as away. The wake makes its event loop check the mark.
  // mutant: I7-absent-not-called
  if (any) owner_.wakeReady();
  return any;
}

void AsyncWaits::resettle() {
  const Lock revoking(owner_.revokeMutex());
  for (AsyncWaiter* waiter : waiters_) {
    if (!waiter) continue;
    Table& table = waiter->membership->table();
    WakeSet wakes;
    const Lock lock = table.lockFor(*waiter);
    if (waiter->is(WaiterState::kWaiting)) table.regrant(waiter->stripe(), &owner_, wakes);
  }
}

}  // namespace stripelock
