// One thread's async acquisitions, which wait without blocking the thread. Only that thread uses this class, except for
// revoke(). Other threads access the waiters only through the stripes' queues, with the shard locked.
//
// Revoking. A granted or designated waiter is in its owner's ready list (participant.h) until the owner's event loop
// collects it. While it is in that list, any thread can revoke its grant or designation. The revoking thread keeps the
// owner's revoke mutex locked from the search of the list until the waiter is in its queue again. The owner's thread
// locks that mutex before it works on waiters that it did not take from the ready list. So the owner's thread finds
// each waiter either granted and in the ready list, or waiting, but never in between (preserves I5, I7).
//
// async_waits.cc: how acquisitions start and end. async_returns.cc: how acquisitions give back grants.

#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "core/base/indexed_heap.h"
#include "core/base/sync.h"
#include "core/table/gate.h"
#include "core/table/waiter.h"

namespace stripelock {

class Membership;
class Participant;
class Table;

// How long a grant may stay in the ready list before it can be revoked. Even a busy event loop, or one that waits for a
// processor, usually collects a grant earlier. The time doubles with each revocation of the same waiter, so even a slow
// event loop gets the stripe eventually.
#ifdef STRIPELOCK_TEST_SEAM
inline Nanoseconds kRevokeAfter = 50'000'000;
#else
inline constexpr Nanoseconds kRevokeAfter = 50'000'000;
#endif
inline constexpr int kMostRevoked = 7;

// The outcome of starting an async acquisition.
enum class AsyncStart : std::uint8_t { kGranted, kPending, kTimedOut, kFailed };

class AsyncWaits {
 public:
  explicit AsyncWaits(Participant& owner) : owner_(owner) {}

  struct Started {
    AsyncStart status;
    // If granted: whether an earlier holder died.
    bool abandoned = false;
    // If pending: the id of the acquisition until it is settled.
    std::uint32_t id = 0;
    // If timed out: the stripe that was not available.
    std::uint32_t stripe = 0;
    // If failed: the error of the gate. Nothing is held.
    FileError error;
  };
  Started start(Membership& membership, const Request& request);

  // Removes a pending acquisition, which then holds nothing. Returns false if the id is unknown.
  bool cancel(std::uint32_t id);

  struct Granted {
    std::uint32_t id;
    bool abandoned;
    Draw draw;
    // Set if the gate failed. The acquisition then holds nothing.
    FileError error;
  };
  // Hands out up to `room` grants and returns their number. These acquisitions are then settled and hold their
  // stripes.
  std::size_t take(Granted* out, std::size_t room);
  // Whether take() may have more grants to hand out.
  bool hasReady() const;

  struct Expired {
    std::uint32_t id;
    std::uint32_t stripe;
  };
  // Removes up to `room` acquisitions whose deadline has passed. An acquisition may be granted instead of removed;
  // take() then hands it out.
  std::size_t expire(Expired* out, std::size_t room);
  // The earliest deadline of a pending acquisition.
  Deadline nextDeadline() const;

  // Call it when a sync wait starts, and during it. Releases all stripes that were taken for pending acquisitions, and
  // queues these acquisitions again, ordered by arrival time.
  void reclaim();
  // Calls Table::regrant() for each stripe that a pending acquisition waits for. During a long sync wait of this
  // thread, the pending acquisitions are not eligible, so waiters behind them may pass. After the wait, skipped
  // acquisitions get the stripes that are free.
  void resettle();
  // Cancels all acquisitions.
  void close();
  // Cancels the acquisitions of one lock.
  void closeMembership(const Membership& membership);
  // Call it periodically while acquisitions are pending. Revokes grants and designations that other threads do not
  // collect, if a pending acquisition waits for the stripe.
  void revokeIdleGrants();

  // ── by any other thread, with no shard locked ──

  // Revokes the stripe from the owner's waiters that are still in the ready list a long time after they were granted
  // the stripe or designated for it. Those waiters wait again in their old places. `last`: true if the caller is about
  // to time out. Then a waiter that was never revoked before loses the stripe immediately. Returns true if a waiter was
  // revoked.
  bool revoke(const Table& table, std::uint32_t stripe, bool last);

 private:
  struct AsyncWaiter : Waiter {
    std::uint32_t id = 0;
    std::uint32_t only = 0;
    std::unique_ptr<std::uint32_t[]> many;
    std::unique_ptr<const std::string> ownNote;
    // The waiter's place in deadlines_, if `timed`.
    std::uint32_t place = 0;
    bool timed = false;
    // True if the acquisition has ended, but the waiter is still in the ready list.
    bool dropped = false;
  };

  // Implements start() for requests that do not wait.
  Started attempt(Membership& membership, const Request& request);
  // Enters the gate for a waiter that has all words. A refused waiter is linked again.
  Gate::Entry enterOrCede(AsyncWaiter& waiter);
  AsyncWaiter& make();
  // Frees a waiter. No other thread may still reference it.
  void destroy(AsyncWaiter& waiter);
  void add(AsyncWaiter& waiter, Deadline deadline);
  // Removes the waiter from every list of this class; does not destroy it.
  void forget(AsyncWaiter& waiter);
  void drop(AsyncWaiter& waiter);
  bool overtake(AsyncWaiter& waiter);
  // Counts the waiter's stripes as shared holds of this thread, which now collects the grant.
  void countAll(const AsyncWaiter& waiter);
  // Adds `by` to the table's number of waiting acquisitions. A waiter counts only after it is linked, so a thread that
  // sees the number also finds the waiter in a queue. Another thread may grant the waiter, and subtract 1, before the
  // waiter's own thread adds 1. So the number may be negative for a moment; readers treat a negative number as 0.
  void countWaiting(const AsyncWaiter& waiter, int by);
  // Releases the first `count` stripes of an unlinked waiter that holds them.
  void rollBack(const AsyncWaiter& waiter, std::uint32_t count);
  void giveBack(AsyncWaiter& waiter);
  void dispose(AsyncWaiter& waiter);
  // Removes and returns the next ready waiter, or nullptr.
  AsyncWaiter* popReady();
  bool tryDesignated(AsyncWaiter& waiter);
  void putBack(AsyncWaiter& waiter);
  void putOff(AsyncWaiter& waiter);
  void reclaimReady();
  void reclaimPartial(AsyncWaiter& waiter);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // If memory were reused here, the sanitizers would miss the use of a freed waiter.
  static constexpr std::size_t kMostSpare = 0;
#else
  static constexpr std::size_t kMostSpare = 256;
#endif

  Participant& owner_;
  // The pending waiters, indexed by id. Unused ids are null here and listed in freeIds_.
  std::vector<AsyncWaiter*> waiters_;
  std::vector<std::uint32_t> freeIds_;
  // Waiters for more than one stripe. They may hold some of their stripes while they wait for the next one.
  std::unordered_set<AsyncWaiter*> multiple_;
  // Only waiters that have a deadline.
  IndexedHeap<Nanoseconds, AsyncWaiter> deadlines_;
  // Waiters that were removed from the ready list and not handed out yet.
  Waiter* ready_ = nullptr;
  // Memory of freed waiters, reused for new ones.
  std::vector<void*> spare_;
};

}  // namespace stripelock
