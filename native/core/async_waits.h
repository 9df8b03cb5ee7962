// The acquisitions of one thread that wait without blocking it. Only that thread uses this class, except for revoke().
// Other threads reach its waiters only through the queues, under their shards.
//
// Revoking. Any thread can take back a grant or a designation that is still in the ready list. The revoker holds the
// owner's revoke mutex from its look into that list until the waiter is in its queue again. The owner's thread takes
// that mutex whenever it works on waiters that it did not take from the ready list itself. So it finds each waiter
// either granted and in the ready list, or waiting, and never halfway (keeps I5, I7).
//
// async_waits.cc has how acquisitions start and end, async_returns.cc how they give back what they were granted.

#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "core/indexed_heap.h"
#include "core/sync.h"
#include "core/waiter.h"

namespace stripelock {

class Membership;
class Participant;
class Table;

// How long a grant may lie in the ready list before it can be revoked: longer than most event loops are busy at a time
// or wait for a processor. The time doubles each time the same waiter is revoked. So a thread whose event loop is slow
// but still turns gets the stripe eventually.
#ifdef STRIPELOCK_TEST_SEAM
inline Nanoseconds kRevokeAfter = 50'000'000;
#else
inline constexpr Nanoseconds kRevokeAfter = 50'000'000;
#endif
inline constexpr int kMostRevoked = 7;

// How an async acquisition began.
enum class AsyncStart : std::uint8_t { kGranted, kPending, kTimedOut };

class AsyncWaits {
 public:
  explicit AsyncWaits(Participant& owner) : owner_(owner) {}

  struct Started {
    AsyncStart status;
    // If granted: whether an earlier holder died.
    bool abandoned = false;
    // If pending: its id until it is settled.
    std::uint32_t id = 0;
    // If timed out: the stripe that was not available.
    std::uint32_t stripe = 0;
  };
  Started start(Membership& membership, const Request& request);

  // Removes a pending acquisition, which then holds nothing. False if there is none with that id.
  bool cancel(std::uint32_t id);

  struct Granted {
    std::uint32_t id;
    bool abandoned;
    Draw draw;
  };
  // Hands out up to `room` grants. These acquisitions are then settled and hold their stripes.
  std::size_t take(Granted* out, std::size_t room);
  // Whether take() may have more to hand out.
  bool hasReady() const;

  struct Expired {
    std::uint32_t id;
    std::uint32_t stripe;
  };
  // Removes up to `room` acquisitions whose deadline has passed. Some may be granted instead: take() hands them out.
  std::size_t expire(Expired* out, std::size_t room);
  // The earliest deadline.
  Deadline nextDeadline() const;

  // At the start of a sync wait, and during it: gives back everything that was taken for pending acquisitions, and puts
  // them back in their queues by their time of arrival.
  void reclaim();
  // During a long sync wait: lets waiters behind the pending acquisitions pass them. After the wait: grants the pending
  // acquisitions that were passed over, if their stripes are free.
  void resettle();
  // Cancels all.
  void close();
  // Cancels the acquisitions of one lock.
  void closeMembership(const Membership& membership);
  // Call it now and then while acquisitions are pending: takes back what they wait for from threads that do not come
  // for it.
  void lookForIdle();

  // ── by any other thread, with no shard locked ──

  // Takes the stripe back from all waiters that were granted it, or designated for it, and have not come for it for a
  // long time. They wait again, in their old places. `last`: the caller is about to give up, so a waiter that was
  // never revoked before loses the stripe at once. True if there was one.
  bool revoke(const Table& table, std::uint32_t stripe, bool last);

 private:
  struct AsyncWaiter : Waiter {
    std::uint32_t id = 0;
    std::uint32_t only = 0;
    std::unique_ptr<std::uint32_t[]> many;
    std::unique_ptr<const std::string> ownNote;
    // Its place in deadlines_, if `timed`.
    std::uint32_t place = 0;
    bool timed = false;
    // Nobody waits for it anymore, but the ready list still has it.
    bool dropped = false;
  };

  AsyncWaiter& make();
  // The opposite of make(). Nobody else may still know the waiter.
  void destroy(AsyncWaiter& waiter);
  void add(AsyncWaiter& waiter, Deadline deadline);
  // Removes it from every list of this class; does not destroy it.
  void forget(AsyncWaiter& waiter);
  void drop(AsyncWaiter& waiter);
  bool overtake(AsyncWaiter& waiter);
  // It holds all of its stripes now, and its thread knows.
  void countAll(const AsyncWaiter& waiter);
  // Counts it as waiting, or not any more: it does until it is granted, or ends.
  void countWaiting(const AsyncWaiter& waiter, int by);
  // Gives back the first stripes of a waiter that holds these and is not linked.
  void rollBack(const AsyncWaiter& waiter, std::uint32_t count);
  void giveBack(AsyncWaiter& waiter);
  void dispose(AsyncWaiter& waiter);
  // The next waiter that is designated or granted, or nullptr.
  AsyncWaiter* popReady();
  bool tryDesignated(AsyncWaiter& waiter);
  void putBack(AsyncWaiter& waiter);
  void putOff(AsyncWaiter& waiter);
  void reclaimReady();
  void reclaimPartial(AsyncWaiter& waiter);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // With spare memory the sanitizers would not see the use of a freed waiter.
  static constexpr std::size_t kMostSpare = 0;
#else
  static constexpr std::size_t kMostSpare = 256;
#endif

  Participant& owner_;
  // The index is the id. Unused ids are null here and listed in freeIds_.
  std::vector<AsyncWaiter*> waiters_;
  std::vector<std::uint32_t> freeIds_;
  // Waiters for more than one stripe, which may hold some while they wait for others.
  std::unordered_set<AsyncWaiter*> multiple_;
  // Only waiters that have a deadline.
  IndexedHeap<Nanoseconds, AsyncWaiter> deadlines_;
  // Taken from the ready list and not handed out yet.
  Waiter* ready_ = nullptr;
  // Memory of freed waiters, for new ones.
  std::vector<void*> spare_;
};

}  // namespace stripelock
