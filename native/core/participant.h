// A thread that uses locks: its slot, how to wake it, and what it waits for.
//
// Participants are never freed, but reused with their slot (registry.h). So one can be woken without knowing
// whether its thread is still alive.

#pragma once

#include <optional>
#include <unordered_map>

#include "core/async_waits.h"
#include "core/platform.h"
#include "core/spin.h"
#include "core/sync.h"
#include "core/waiter.h"

namespace stripelock {

class Membership;

class Participant {
 public:
  // Asks the thread's event loop to call AsyncWaits::take soon. Called from any thread with the participant's wake
  // mutex held, so it must not call back.
  struct WakeLoop {
    void (*wake)(void* data) = nullptr;
    void* data = nullptr;
  };

  explicit Participant(std::uint32_t slot) : slot_(slot), asyncWaits_(*this) {}

  // Stands in the word of a stripe that this thread holds exclusively. At least 1.
  std::uint32_t slot() const { return slot_; }
  // The host's number for the thread, shown to people.
  std::int32_t threadId() const { return threadId_.load(); }
  Parker& parker() { return parker_; }
  AsyncWaits& asyncWaits() { return asyncWaits_; }

  // ── from any thread ──

  // Whether to pass over an async waiter of this thread: the thread blocks in a sync wait, or it is away from its event
  // loop and the waiter holds nothing that others may want. If so, marks the thread: it looks after those waiters when
  // it continues or comes back. Either the caller sees here that the thread is back, or the thread sees the mark.
  bool passOver(bool holdsSome) {
    if (!isAway(holdsSome)) return false;
    STRIPELOCK_SEAM("pass over: before it is noted");
    passedOver_.store(true);
    return isAway(holdsSome);
  }
  // Takes the oldest waiter for which `matches` is true out of the ready list, and notes that the thread is away from
  // its event loop until comesBack(). nullptr if there is none. Call it with the revoke mutex locked.
  template <typename Matches>
  Waiter* takeBack(Matches matches);
  // Puts a designated waiter into the ready list. Call it with the shard locked under which the waiter is linked.
  void pushReady(Waiter& waiter);
  // Grants a waiter its last stripe and puts it into the ready list. Call it with the shard locked under which the
  // waiter was linked.
  void pushGranted(Waiter& waiter);
  // Call it after either, with no shard locked.
  void wakeReady();
  // Grants that the thread has not noticed. While there are any, the set of stripes that it holds is not final.
  std::uint32_t undelivered() const { return undelivered_.load(); }
  // One fewer: the thread noticed the grant, or it was taken back.
  void delivered() { undelivered_.fetch_sub(1); }
  // See AsyncWaits::revoke.
  Mutex& revokeMutex() { return revokeMutex_; }

  // ── by the thread itself ──

  void start(std::int32_t threadId, WakeLoop wakeLoop);
  // The event loop is not woken anymore after this returns.
  void stop();
  // Call these around a sync wait. While the thread is blocked, its async waiters hold nothing and are granted nothing:
  // it could not use a stripe, and another thread might need that stripe to unblock this one.
  void block();
  void unblock();
  // All ready waiters, oldest first, chained through nextReady.
  Waiter* takeReady();
  bool hasReady() const { return hasReady_.load(); }
  // The event loop calls it when it looks. True if waiters were passed over; the thread must look after them now.
  bool comesBack();

  // One per table that this thread uses, by the table's memory.
  std::unordered_map<void*, Membership*> memberships;
  Patience patience;
  // Where it allocates tables (FreeSpans).
  std::optional<std::uint64_t> arena;
  // Of its last release, or of its last sync wait.
  Draw draw = Draw::kNone;
  // What the thread blocks on; guarded by the wait graph's mutex.
  Waiter* blockedOn = nullptr;

 private:
  bool isAway(bool holdsSome) const { return blocked_.load() || (absent_.load() && !holdsSome); }
  void pushReadyLocked(Waiter& waiter);
  void unlinkReady(Waiter* before, Waiter& waiter);

  const std::uint32_t slot_;
  std::atomic<std::int32_t> threadId_{-1};
  Parker parker_;

  std::atomic<bool> blocked_{false};
  // Something was taken back from the thread, and it has not looked since.
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
  // A wake is on its way to the event loop, so a burst of grants costs only one.
  std::atomic<bool> waking_{false};

  AsyncWaits asyncWaits_;
};

template <typename Matches>
Waiter* Participant::takeBack(Matches matches) {
  const Lock lock(readyMutex_);
  Waiter* before = nullptr;
  for (Waiter* waiter = readyHead_; waiter; before = waiter, waiter = waiter->nextReady) {
    if (!matches(static_cast<const Waiter&>(*waiter))) continue;
    // Set before the stripes are given back, or they would be granted to this thread again (keeps I3: see comesBack).
    absent_.store(true);
    unlinkReady(before, *waiter);
    return waiter;
  }
  return nullptr;
}

}  // namespace stripelock
