// A thread that uses locks: its slot, how to wake it, and what it waits for.
//
// Participants are never freed but used again with their slot (registry.h), so that one can be woken without
// knowing whether its thread still lives.

#pragma once

#include <unordered_map>

#include "core/async_waits.h"
#include "core/descriptor_watch.h"
#include "core/platform.h"
#include "core/sync.h"

namespace stripelock {

struct Waiter;
class Membership;

class Participant {
 public:
  // Asks the thread's event loop to call AsyncWaits::take soon. Called from any thread, with Participant's wake
  // mutex held: it must not call back.
  struct WakeLoop {
    void (*wake)(void* data) = nullptr;
    void* data = nullptr;
  };

  explicit Participant(std::uint32_t slot) : slot_(slot), asyncWaits_(*this) {}

  // What a word says that this thread holds exclusively. 1 and up.
  std::uint32_t slot() const { return slot_; }
  // The host's number for the thread, as it is shown to people.
  std::int32_t threadId() const { return threadId_.load(); }
  Parker& parker() { return parker_; }
  // Wakes the thread, while it blocks, when its host wants something of it.
  DescriptorWatch& hostWatch() { return hostWatch_; }
  AsyncWaits& asyncWaits() { return asyncWaits_; }

  // ── from any thread ──

  // Whether grants to this thread's async waiters are to be put off, since it blocks in a sync wait. If so it is
  // remembered, and the thread looks after those waiters when it goes on: either the caller sees it go on here,
  // or it sees what the caller wrote.
  bool passOver() {
    if (!blocked_.load()) return false;
    passedOver_.store(true);
    return blocked_.load();
  }
  // Puts a waiter that was designated into the ready list, with the shard locked under which it is linked.
  void pushReady(Waiter& waiter);
  // Grants a waiter its last stripe and puts it there, with the shard locked under which it was linked.
  void pushGranted(Waiter& waiter);
  // After either, with no shard locked.
  void wakeReady();
  // Grants that the thread has not taken note of. While there are any, what it holds is not final.
  std::uint32_t undelivered() const { return undelivered_.load(); }

  // ── by the thread itself ──

  void start(std::int32_t threadId, WakeLoop wakeLoop);
  // No more wakes after this returns.
  void stop();
  // Around a sync wait. While blocked, async waiters of this thread hold nothing and are granted nothing: it
  // could not use it, and somebody else might need it to unblock this thread.
  void block();
  void unblock();
  // All that is ready, oldest first, chained through nextReady.
  Waiter* takeReady();
  bool hasReady() const { return hasReady_.load(); }
  void delivered() { undelivered_.fetch_sub(1); }

  // One for each table that this thread uses, by the table's memory.
  std::unordered_map<void*, Membership*> memberships;
  // What the thread blocks on; guarded by the wait graph's mutex.
  Waiter* blockedOn = nullptr;

 private:
  void pushReadyLocked(Waiter& waiter);

  const std::uint32_t slot_;
  std::atomic<std::int32_t> threadId_{-1};
  Parker parker_;
  DescriptorWatch hostWatch_{parker_};

  std::atomic<bool> blocked_{false};
  std::atomic<bool> passedOver_{false};
  std::atomic<std::uint32_t> undelivered_{0};

  Mutex readyMutex_;
  Waiter* readyHead_ = nullptr;
  Waiter* readyTail_ = nullptr;
  std::atomic<bool> hasReady_{false};

  Mutex wakeMutex_;
  WakeLoop wakeLoop_;
  // A wake is on its way to the event loop, so that a burst of grants costs one.
  std::atomic<bool> waking_{false};

  AsyncWaits asyncWaits_;
};

}  // namespace stripelock
