// A waiting acquisition, and the queue of a stripe's waiters.
//
// A waiter takes its stripes in ascending order. It is linked in the queue of the first stripe that it could not take,
// stripes[position], and holds all stripes before it. Access to the fields:
//
//   field                          guarded by
//   prev, next, position, state    the shard of stripes[position]; state may be read without it
//   abandoned, draw                the same while state is kWaiting, then the owner
//   nextReady                      the same while state is kWaiting, then the owner's ready list
//   ready, readyAt                 set under the shard and the ready list; reset by the thread that takes it from there
//   revoked                        the owner's revoke mutex
//   everything else                fixed before the waiter is linked, or the owner's thread
//
// To find a waiter whose position may be changing, lock the shard of the position that you read, and check again: a
// thread that moves a waiter holds the old shard until it holds the new one (Table::proceed). Requeueing moves a waiter
// without that. But only its own thread, or a thread that has the owner's revoke mutex, requeues it or searches for it.

#pragma once

#include <algorithm>
#include <string>

#include "core/contention_profile.h"
#include "core/mode.h"
#include "core/sync.h"

namespace stripelock {

class Membership;
class Participant;

enum class WaiterState : std::uint8_t {
  kWaiting,     // linked, and asleep or about to be
  kDesignated,  // linked, and its thread woken to try for the stripe; at most one waiter per stripe
  kTaking,   // took its stripe and is about to take the rest; not linked, and only its own thread touches it
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
  // It first waited within its thread, so it is linked later than it arrived: see insertByNumber.
  bool comesFirst = false;
  // A deadline or a signal may end it before it is granted. A blocked thread counts as not giving up.
  bool mayGiveUp = false;
  // Async: in the owner's ready list, as designated or granted. It must not be freed until it is taken from there.
  bool ready = false;
  // The thread of an earlier holder of some stripe ended without releasing it.
  bool abandoned = false;
  // The last release that designated it drew this for a profile.
  Draw draw = Draw::kNone;
  // The number of revocations, up to kMostRevoked (async_waits.h).
  std::uint8_t revoked = 0;
  Nanoseconds since = 0;
  // Its arrival number in its current queue. No waiter behind it has a lower one.
  std::uint32_t arrival = 0;
  // When it was added to the ready list.
  Nanoseconds readyAt = 0;
  // Shown by inspect() for a traced acquisition; see notes.h.
  const std::string* note = nullptr;

  std::uint32_t stripe() const { return stripes[position.load()]; }
  bool is(WaiterState expected) const { return state.load() == expected; }
};

// Doubly linked, in order of arrival. All zero is empty, so that queues can come from zeroed memory.
struct StripeQueue {
  Waiter* head;
  Waiter* tail;
  // The one waiter in state kDesignated, if any. Changed under the shard; may be read without it.
  std::atomic<Waiter*> designated;
  // Until this time the head may be overtaken; after it, the head is granted next. Meaningless without a head: the
  // thread that links the first waiter sets it.
  Nanoseconds fairAt;
  std::uint32_t length;

  void pushBack(Waiter& waiter) {
    waiter.prev = tail;
    waiter.next = nullptr;
    (tail ? tail->next : head) = &waiter;
    tail = &waiter;
    ++length;
  }

  // Inserts a waiter that had to give up its turn at the place of its arrival time.
  void insertByArrival(Waiter& waiter) {
    Waiter* after = head;
    while (after && after->since <= waiter.since) after = after->next;
    if (tail) waiter.arrival = after ? after->arrival : tail->arrival;
    if (!after) return pushBack(waiter);
    insertBefore(waiter, *after);
  }

  // The same for a waiter that first waited within its thread. Its arrival number is more exact than its arrival time.
  void insertByNumber(Waiter& waiter) {
    Waiter* after = head;
    // The counter wraps around.
    while (after && static_cast<std::int32_t>(after->arrival - waiter.arrival) <= 0) after = after->next;
    if (!after) return pushBack(waiter);
    // So that insertByArrival finds the same place.
    waiter.since = std::min(waiter.since, after->since - 1);
    insertBefore(waiter, *after);
  }

  void insertBefore(Waiter& waiter, Waiter& after) {
    waiter.next = &after;
    waiter.prev = after.prev;
    (after.prev ? after.prev->next : head) = &waiter;
    after.prev = &waiter;
    ++length;
  }

  void remove(Waiter& waiter) {
    (waiter.prev ? waiter.prev->next : head) = waiter.next;
    (waiter.next ? waiter.next->prev : tail) = waiter.prev;
    waiter.prev = waiter.next = nullptr;
    --length;
  }
};

// The parameters of one acquisition.
struct Request {
  // Ascending, no duplicates, at least one.
  const std::uint32_t* stripes;
  std::uint32_t count;
  // The number of stripes, from the front, that its thread already holds. They are given back if the request fails.
  std::uint32_t taken;
  Mode mode;
  // Milliseconds. 0 makes one attempt; infinity waits forever. A finite number beyond the range of the clock means no
  // deadline, but the request may be cancelled.
  double timeout;
  // Milliseconds for which an async acquisition of one stripe has already waited within its thread. Negative if it has
  // not.
  double waited = -1;
  // If it has waited: Table::arrivals() of the stripe when it arrived, masked by kArrivalMask.
  std::uint32_t arrival = 0;
  // If traced, the note that inspect() shows while it waits.
  const std::string* note = nullptr;
};

}  // namespace stripelock
