// The acquisitions of one thread that wait without blocking it. Only that thread uses this class, except for revoke().
// Other threads reach its waiters only through the queues, under their shards.
//
// Revoking. Any thread can take back what was granted or designated and still lies in the ready list. The revoker holds
// the owner's revoke mutex from its look into that list until the waiter is in its queue again. The owner's thread takes
// that mutex for whatever it does with waiters that it did not take from the ready list itself. So it finds each waiter
// either granted and in the ready list, or waiting, and never half-way (keeps I5, I7).
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

// How long a grant may lie in the ready list before it can be revoked: longer than most event loops are busy at a time,
// or wait for a processor. The time doubles each time the same waiter is revoked. So a thread whose event loop is slow,
// but turns, gets its turn in the end.
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
    // If pending: what names it until it is settled.
    std::uint32_t id = 0;
    // If timed out: the stripe that was not available.
    std::uint32_t stripe = 0;
  };
  Started start(Membership& membership, const Request& request);

  // Removes a pending one; it holds nothing then. False if there is none of that id.
  bool cancel(std::uint32_t id);

  struct Granted {
    std::uint32_t id;
    bool abandoned;
  };
  // Hands out up to `room` grants. They are settled then, and their stripes held.
  std::size_t take(Granted* out, std::size_t room);
  // Whether take() has more to hand out.
  bool hasReady() const;

  struct Expired {
    std::uint32_t id;
    std::uint32_t stripe;
  };
  // Removes up to `room` of those whose deadline has passed. Some of them may be granted instead: take() hands them out.
  std::size_t expire(Expired* out, std::size_t room);
  // The earliest deadline.
  Deadline nextDeadline() const;

  // At the start of a sync wait, and during it: gives back all that was taken for pending acquisitions, and puts them
  // back in their queues by their time of arrival.
  void reclaim();
  // In a sync wait that lasts: lets others pass that wait behind the pending acquisitions. After it: grants those of the
  // pending ones that were passed over, where their stripes are free.
  void resettle();
  // Cancels all.
  void close();
  // Cancels those of one lock.
  void closeMembership(const Membership& membership);
  // Now and then, while some are pending: takes back what they wait for from threads that do not come for it.
  void lookForIdle();

  // ── by any other thread, with no shard locked ──

  // Takes the stripe back from all that were granted it, or designated for it, and have not come for it for a long time.
  // They wait again, in their old places. `last`: the caller is about to give up, so those that were never revoked before
  // need not have had a long time. True if there was one.
  bool revoke(const Table& table, std::uint32_t stripe, bool last);

 private:
  struct AsyncWaiter : Waiter {
    std::uint32_t id = 0;
    std::uint32_t only = 0;
    std::unique_ptr<std::uint32_t[]> many;
    std::unique_ptr<const std::string> ownNote;
    // In deadlines_, if it is there.
    std::uint32_t place = 0;
    bool timed = false;
    // Nobody waits for it any more, but the ready list still has it.
    bool dropped = false;
  };

  AsyncWaiter& make();
  // The opposite of make(). Nobody else knows the waiter any more.
  void destroy(AsyncWaiter& waiter);
  void add(AsyncWaiter& waiter, Deadline deadline);
  // Makes it unknown; does not destroy it.
  void forget(AsyncWaiter& waiter);
  void drop(AsyncWaiter& waiter);
  // Makes a last attempt for one whose deadline has passed. True: it was granted, or it is its turn to try.
  bool tryLate(AsyncWaiter& waiter);
  void giveBack(AsyncWaiter& waiter);
  void dispose(AsyncWaiter& waiter);
  // The next that is designated or granted, or nullptr.
  AsyncWaiter* popReady();
  bool tryDesignated(AsyncWaiter& waiter);
  void putBack(AsyncWaiter& waiter);
  void putOff(AsyncWaiter& waiter);
  void reclaimReady();
  void reclaimPartial(AsyncWaiter& waiter);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // With spare memory they would not see the use of a waiter that is gone.
  static constexpr std::size_t kMostSpare = 0;
#else
  static constexpr std::size_t kMostSpare = 256;
#endif

  Participant& owner_;
  // By id; unused ids are null here and listed there.
  std::vector<AsyncWaiter*> waiters_;
  std::vector<std::uint32_t> freeIds_;
  // Those of more than one stripe, which may hold some while they wait for others.
  std::unordered_set<AsyncWaiter*> multiple_;
  // Of those that have one.
  IndexedHeap<Nanoseconds, AsyncWaiter> deadlines_;
  // Taken from the ready list and not handed out yet.
  Waiter* ready_ = nullptr;
  // Memory of waiters that are gone, for those to come.
  std::vector<void*> spare_;
};

}  // namespace stripelock
