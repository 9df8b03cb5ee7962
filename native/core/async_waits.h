// The acquisitions of one thread that wait without blocking it. Used by that thread alone; other threads reach
// its waiters only through the queues, under their shards.

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
    // If timed out: the stripe that could not be had.
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
  // Removes up to `room` of those whose deadline has passed.
  std::size_t expire(Expired* out, std::size_t room);
  // The earliest deadline.
  Deadline nextDeadline() const;

  // At the start of, and during, a sync wait: gives back all that was taken for pending acquisitions, and puts
  // them back in their queues by their time of arrival.
  void reclaim();
  // In a sync wait that lasts: lets those pass that wait behind the pending acquisitions. After it: lets those of
  // the latter be granted that were passed over.
  void resettle();
  // Cancels all.
  void close();
  // Cancels those of one lock.
  void closeMembership(const Membership& membership);

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
  // The opposite. Nobody else knows the waiter any more.
  void destroy(AsyncWaiter& waiter);
  void add(AsyncWaiter& waiter, Deadline deadline);
  // Makes it unknown; does not destroy it.
  void forget(AsyncWaiter& waiter);
  void drop(AsyncWaiter& waiter);
  void giveBack(AsyncWaiter& waiter);
  void dispose(AsyncWaiter& waiter);
  // The next that is designated or granted, or nullptr.
  AsyncWaiter* popReady();
  bool tryDesignated(AsyncWaiter& waiter);
  void putOff(AsyncWaiter& waiter);
  void requeue(AsyncWaiter& waiter);
  void reclaimReady();
  void reclaimPartial(AsyncWaiter& waiter);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // They would not see one used that is gone.
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
