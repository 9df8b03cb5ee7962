// Records which threads block in sync waits, and detects cycles of threads that wait for each other.
//
// A blocked thread releases nothing. The graph has an edge from blocked thread A to blocked thread B if A waits for a
// stripe that B holds in an incompatible mode. It also has this edge if A waits for a shared hold, and B waits ahead of
// A for an exclusive hold of the same stripe. An edge stays as long as both threads block, so only a timeout can break
// a cycle.
//
// The writer ahead of A can also be an async waiter of a running thread. This writer blocks A only if it has neither a
// deadline nor a signal, because it then stays in the queue until its thread closes the lock, blocks, or ends. Only
// threads that have slept for a slice enter the graph, so short waits cost nothing.
//
// A thread that waits for a permit can continue when any holder of a permit continues. It has edges only if blocked
// threads hold all permits, and is stuck only if all these holders are stuck. A thread that does not wait for a permit
// is stuck if any thread that it waits for is stuck. The search collects all threads that a thread waits for, directly
// or indirectly. Then it repeatedly removes the threads that can continue (`stuckFrom`). A cycle among the remaining
// threads is a deadlock.
//
// The first pass reads one edge after the other while other threads run. So a second pass confirms that each stuck
// thread is still in the same wait. If so, all edges existed at the same time, between the two passes. This check is
// exact: a thread that leaves its wait locks the graph's mutex, and a waiter that was granted or withdrawn never waits
// again. If a thread has left its wait, the next slice searches again.

#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/table/membership.h"

namespace stripelock {

// A blocked thread, by the host's number for it, and the stripe that the thread waits for.
struct Blocked {
  // The thread must have the stripe's key pinned.
  Blocked(std::int32_t thread, const Table& of, std::uint32_t waitsFor);

  std::int32_t threadId;
  const Table* table;
  std::uint32_t stripe;
  // The stripe's key if the table belongs to a file; otherwise empty.
  std::string key;
};

class WaitGraph {
 public:
  static WaitGraph& instance();

  // Enters the thread into the graph, and checks whether its wait is part of a cycle. If so, withdraws the waiter and
  // returns the cycle; otherwise returns an empty list.
  std::vector<Blocked> refuse(Participant& thread, Waiter& waiter);
  void leave(Participant& thread);

 private:
  // Why a blocked thread cannot continue.
  struct Wait {
    // The blocked threads that this thread waits for. If `any` is set, this thread can continue when one of them has
    // continued; otherwise, when all of them have continued.
    std::vector<Participant*> blockers;
    bool any = false;
  };
  using Waits = std::unordered_map<Participant*, Wait>;

  static std::vector<Participant*> findCycle(Participant& start, const Waits& stuck);
  // The stuck threads that `start` waits for, directly or indirectly. Contains `start` if it is part of a cycle. Empty
  // if no thread waits for `start`.
  Waits stuckFrom(Participant& start);
  static bool isStuck(const Wait& wait, const Waits& stuck);
  // The second pass: whether the cycle still exists.
  bool holds(const std::vector<Participant*>& cycle, const Waits& stuck);
  Wait waitOf(Participant& thread);
  static Wait waitForPermit(Participant& thread, Table& table, std::uint32_t stripe);

  Mutex mutex_;
};

}  // namespace stripelock
