// Records which threads block in sync waits, and detects cycles of threads that wait for each other.
//
// A blocked thread releases nothing. Suppose blocked thread A waits for a stripe that blocked thread B holds in an
// incompatible mode. This edge of the graph stays as long as both block. The same holds if A waits for a shared hold
// behind B, which waits for an exclusive one. Only a timeout can break a cycle of such edges.
//
// The writer in front of A can also be an async writer of a running thread. Such a writer blocks A only if it has
// neither a deadline nor a signal. Then it stays in the queue until its thread closes the lock, blocks, or ends. Only
// threads that have slept for a slice enter the graph, so short waits cost nothing.
//
// A thread that waits for a permit can continue when any holder of a permit continues. It has edges only if blocked
// threads hold all permits, and is stuck only if all of them are stuck. Any other thread is stuck if one thread that it
// waits for is stuck. The search collects all threads that a thread waits for, directly or not. Then it repeatedly
// removes those that can continue (`stuckFrom`). A cycle among the rest is a deadlock.
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

// A thread, by its host number, and the stripe that it waits for.
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

  // Enters the thread, and checks whether its wait is part of a cycle. If so, withdraws the waiter and returns the
  // cycle; otherwise returns an empty list.
  std::vector<Blocked> refuse(Participant& thread, Waiter& waiter);
  void leave(Participant& thread);

 private:
  // Why a blocked thread cannot continue.
  struct Wait {
    // The blocked threads that the thread waits for: all of them, or any one of them if `any`.
    std::vector<Participant*> blockers;
    bool any = false;
  };
  using Waits = std::unordered_map<Participant*, Wait>;

  static std::vector<Participant*> findCycle(Participant& start, const Waits& stuck);
  // The stuck threads that `start` waits for, directly or not. Contains `start` if it is part of a cycle. Empty if no
  // thread waits for `start`.
  Waits stuckFrom(Participant& start);
  static bool isStuck(const Wait& wait, const Waits& stuck);
  // The second pass: whether the cycle still exists.
  bool holds(const std::vector<Participant*>& cycle, const Waits& stuck);
  Wait waitOf(Participant& thread);
  static Wait waitForPermit(Participant& thread, Table& table, std::uint32_t stripe);

  Mutex mutex_;
};

}  // namespace stripelock
