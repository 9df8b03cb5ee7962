// A thread that uses locks: its slot, how to wake it, and its waits.
//
// Participants are never freed, but reused together with their slot (registry.h). So waking a participant is safe even
// if its thread has ended.

#pragma once

#include <optional>
#include <unordered_map>

#include "core/base/platform.h"
#include "core/base/spin.h"
#include "core/base/sync.h"
#include "core/table/async_waits.h"
#include "core/table/waiter.h"

namespace stripelock {

class Membership;

class Participant {
 public:
  // Makes the thread's event loop call AsyncWaits::take soon. Called from any thread with the participant's wake mutex
  // locked, so the function must not call the participant.
  struct WakeLoop {
    void (*wake)(void* data) = nullptr;
    void* data = nullptr;
  };

  explicit Participant(std::uint32_t slot) : slot_(slot), asyncWaits_(*this) {}

  // The number in the word of a stripe that this thread holds exclusively. At least 1.
  std::uint32_t slot() const { return slot_; }
  // The host's number for the thread, for messages.
  std::int32_t threadId() const { return threadId_.load(); }
  Parker& parker() { return parker_; }
  AsyncWaits& asyncWaits() { return asyncWaits_; }

  // ── from any thread ──

  // Returns true if an async waiter of this thread must be skipped: the thread blocks in a sync wait, or the thread is
  // away from its event loop and the waiter holds nothing (`holdsSome` is false). In that case, also marks the thread,
  // so that the thread serves the skipped waiters when it continues. The second check prevents a race: either this
  // check sees that the thread is back, or the thread sees the mark.
  bool passOver(bool holdsSome) {
    if (!isAway(holdsSome)) return false;
    STRIPELOCK_SEAM("pass over: before it is noted");
    passedOver_.store(true);
    return isAway(holdsSome);
  }
  // Removes from the ready list the oldest waiter for which `matches` returns true. Marks the thread as away from its
  // event loop until comesBack(). Returns nullptr if no waiter matches. Call it with the revoke mutex locked.
  template <typename Matches>
  Waiter* takeBack(Matches matches);
  // Puts a designated waiter into the ready list. Call it with the shard of the waiter's stripe locked.
  void pushReady(Waiter& waiter);
  // Marks a waiter as granted and puts it into the ready list. Call it with the shard of the waiter's stripe locked.
  void pushGranted(Waiter& waiter);
  // Call it after pushReady() or pushGranted(), with no shard locked.
  void wakeReady();
  // The number of grants that the thread has not collected. While this number is not 0, words may name this thread as
  // the holder of stripes that it can still lose.
  std::uint32_t undelivered() const { return undelivered_.load(); }
  // Call it after the thread collected a grant, or after the grant was revoked.
  void delivered() { undelivered_.fetch_sub(1); }
  // See AsyncWaits::revoke.
  Mutex& revokeMutex() { return revokeMutex_; }

  // ── by the thread itself ──

  void start(std::int32_t threadId, WakeLoop wakeLoop);
  // After this call, the event loop is not woken anymore.
  void stop();
  // Call these around a sync wait. In between, the thread's async waiters hold nothing and are granted nothing. The
  // reason: a blocked thread cannot use a stripe, but the thread that could unblock it may need that stripe.
  void block();
  void unblock();
  // Empties the ready list. Returns its waiters, oldest first, chained through nextReady.
  Waiter* takeReady();
  bool hasReady() const { return hasReady_.load(); }
  // Called by the event loop when it collects grants. True if waiters were skipped; the thread must serve them now.
  bool comesBack();

  // The thread's memberships, one per table, keyed by the table's memory.
  std::unordered_map<void*, Membership*> memberships;
  Patience patience;
  // The arena in which this thread allocates tables (FreeSpans).
  std::optional<std::uint64_t> arena;
  // Whether a profile records the thread's last release or sync wait.
  Draw draw = Draw::kNone;
  // The waiter that the thread blocks on; guarded by the wait graph's mutex.
  Waiter* blockedOn = nullptr;

 private:
  bool isAway(bool holdsSome) const { return blocked_.load() || (absent_.load() && !holdsSome); }
  void pushReadyLocked(Waiter& waiter);
  void unlinkReady(Waiter* before, Waiter& waiter);

  const std::uint32_t slot_;
  std::atomic<std::int32_t> threadId_{-1};
  Parker parker_;

  std::atomic<bool> blocked_{false};
  // True if a grant was revoked, and the thread has not called comesBack() since.
  std::atomic<bool> absent_{false};
  std::atomic<bool> passedOver_{false};
  std::atomic<std::uint32_t> undelivered_{0};

  Mutex revokeMutex_;
  Mutex readyMutex_;
  Waiter* readyHead_ = nullptr;
  Waiter* readyTail_ = nullptr;
  std::atomic<bool> hasReady_{false};

  Mutex wakeMutex_;
  WakeLoop wakeLoop_;
  // Whether a wake is on its way to the event loop. Because of this flag, a burst of grants sends only one wake.
  std::atomic<bool> waking_{false};

  AsyncWaits asyncWaits_;
};

template <typename Matches>
Waiter* Participant::takeBack(Matches matches) {
  const Lock lock(readyMutex_);
  Waiter* before = nullptr;
  for (Waiter* waiter = readyHead_; waiter; before = waiter, waiter = waiter->nextReady) {
    if (!matches(static_cast<const Waiter&>(*waiter))) continue;
    // absent_ is set before the stripes are released. Otherwise the stripes could be granted to this thread again
    // (preserves I3: see comesBack()).
    absent_.store(true);
    unlinkReady(before, *waiter);
    return waiter;
  }
  return nullptr;
}

}  // namespace stripelock
