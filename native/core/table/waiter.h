// A waiting acquisition, and the queue of a stripe's waiters.
//
// A waiter takes its stripes in ascending order. It is linked in the queue of stripes[position], the first stripe that
// it could not take. It holds all stripes before that one. Access to the fields:
//
//   field                          guarded by
//   prev, next, position, state    the shard of stripes[position]; state may be read without it
//   abandoned, draw                that shard while state is kWaiting; later only the owner's thread uses them
//   nextReady                      that shard while state is kWaiting; later the mutex of the owner's ready list
//   ready, readyAt                 set under that shard and that mutex; reset by the thread that empties the ready list
//   revoked                        the owner's revoke mutex
//   everything else                set before the waiter is linked, or used only by the owner's thread
//
// If other threads may move a waiter, lock its shard as follows (Table::lockFor): read its position, lock the shard of
// the stripe at that position, and check that the position has not changed. A thread that moves a waiter keeps the old
// shard locked until it has locked the new one (Table::proceed). A thread that requeues a waiter need not do so. For an
// async waiter, requeue() and lockFor() are called only by the owner's thread, or with the owner's revoke mutex locked.
// A sync waiter leaves the wait graph before it is requeued (SyncWait::enterOrCede).

#pragma once

#include <algorithm>
#include <string>

#include "core/base/sync.h"
#include "core/table/contention_profile.h"
#include "core/table/mode.h"

namespace stripelock {

class Membership;
class Participant;

enum class WaiterState : std::uint8_t {
  kWaiting,     // linked, and asleep or about to be
  kDesignated,  // linked, and its thread was woken to try for the stripe; at most one waiter per stripe
  kTaking,   // took its stripe and is about to take the rest; not linked, and only its own thread accesses it
  kGranted,  // holds every stripe; not linked
  kWithdrawn,  // gave up; not linked
};

struct Waiter {
  Waiter* prev = nullptr;
  Waiter* next = nullptr;
  Waiter* nextReady = nullptr;
  Membership* membership = nullptr;
  Participant* owner = nullptr;
  const std::uint32_t* stripes = nullptr;
  std::uint32_t count = 0;
  std::atomic<std::uint32_t> position{0};
  std::atomic<WaiterState> state{WaiterState::kWaiting};
  Mode mode = Mode::kExclusive;
  bool async = false;
  // True if the acquisition first waited in JavaScript. The waiter is then linked later than it arrived: see
  // insertByNumber().
  bool comesFirst = false;
  // Whether a deadline or a signal may end this async wait. Always false for a sync waiter.
  bool mayGiveUp = false;
  // Whether this async waiter is in the owner's ready list, because it was designated or granted. It must not be freed
  // while it is in that list.
  bool ready = false;
  // Whether the thread of an earlier holder ended without releasing one of the stripes.
  bool abandoned = false;
  // Whether a profile records the wait. Decided at random each time a release designates the waiter or grants it the
  // stripe.
  Draw draw = Draw::kNone;
  // The number of revocations, up to kMostRevoked (async_waits.h).
  std::uint8_t revoked = 0;
  Nanoseconds since = 0;
  // The waiter's arrival number in its current queue. No waiter behind it has a lower number.
  std::uint32_t arrival = 0;
  // When the waiter was added to the ready list.
  Nanoseconds readyAt = 0;
  // The note of a traced acquisition, which inspect() shows (notes.h); nullptr for other acquisitions.
  const std::string* note = nullptr;

  std::uint32_t stripe() const { return stripes[position.load()]; }
  bool is(WaiterState expected) const { return state.load() == expected; }
};

// A doubly linked list, oldest waiter first. All-zero memory is an empty queue.
struct StripeQueue {
  Waiter* head;
  Waiter* tail;
  // The one waiter in state kDesignated, if any. Changed under the shard; may be read without it.
  std::atomic<Waiter*> designated;
  // The end of the barging period; after this time, the head is granted next. Meaningless while the queue is empty: the
  // thread that links the first waiter sets this time.
  Nanoseconds fairAt;
  std::uint32_t length;
  // The number of async waiters in the queue. Changes together with the list, so the end of a thread cannot separate
  // them.
  std::uint32_t asyncs;
  // True if another process comes before all waiters of this queue. When the current holders have released the stripe,
  // its word becomes kElsewhere.
  bool closed;

  void pushBack(Waiter& waiter) {
    waiter.prev = tail;
    waiter.next = nullptr;
    (tail ? tail->next : head) = &waiter;
    tail = &waiter;
    count(waiter, +1);
  }

  // Inserts a waiter that lost its turn, ordered by arrival time.
  void insertByArrival(Waiter& waiter) {
    Waiter* after = head;
    while (after && after->since <= waiter.since) after = after->next;
    if (tail) waiter.arrival = after ? after->arrival : tail->arrival;
    if (!after) return pushBack(waiter);
    insertBefore(waiter, *after);
  }

  // Inserts a waiter that first waited in JavaScript. Its arrival number orders it more exactly than its arrival
  // time.
  void insertByNumber(Waiter& waiter) {
    Waiter* after = head;
    // Compares the difference with 0, because the counter wraps around.
    while (after && static_cast<std::int32_t>(after->arrival - waiter.arrival) <= 0) after = after->next;
    if (!after) return pushBack(waiter);
    // Keeps `since` ordered, so that insertByArrival() finds the same place.
    waiter.since = std::min(waiter.since, after->since - 1);
    insertBefore(waiter, *after);
  }

  void insertBefore(Waiter& waiter, Waiter& after) {
    waiter.next = &after;
    waiter.prev = after.prev;
    (after.prev ? after.prev->next : head) = &waiter;
    after.prev = &waiter;
    count(waiter, +1);
  }

  void remove(Waiter& waiter) {
    (waiter.prev ? waiter.prev->next : head) = waiter.next;
    (waiter.next ? waiter.next->prev : tail) = waiter.prev;
    waiter.prev = waiter.next = nullptr;
    count(waiter, -1);
  }

  void count(const Waiter& waiter, int by) {
    length += static_cast<std::uint32_t>(by);
    if (waiter.async) asyncs += static_cast<std::uint32_t>(by);
  }
};

// The parameters of one acquisition.
struct Request {
  // Ascending, no duplicates, at least one.
  const std::uint32_t* stripes;
  std::uint32_t count;
  // The thread already holds the first `taken` stripes. They are released if the request fails.
  std::uint32_t taken;
  Mode mode;
  // In milliseconds. 0 makes one attempt; infinity waits forever, without deadline or signal. A finite number beyond
  // the range of the clock sets no deadline, but a signal may still cancel the request.
  double timeout;
  // Milliseconds that the acquisition has already waited in JavaScript; negative if it has not. Only async
  // acquisitions of one stripe wait there.
  double waited = -1;
  // If `waited` is set: Table::arrivals() of the stripe when the acquisition arrived, masked by kArrivalMask.
  std::uint32_t arrival = 0;
  // For a traced acquisition, the note that inspect() shows while the acquisition waits.
  const std::string* note = nullptr;
};

}  // namespace stripelock
