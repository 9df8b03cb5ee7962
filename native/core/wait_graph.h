// Records which threads block in sync waits, and detects cycles of threads that wait for each other.
//
// A blocked thread cannot release anything. So consider an edge "A waits for a stripe that B holds in a mode that is
// incompatible with A's". Once true, it stays true as long as both block, whatever other threads do. The same holds for
// "A waits to share a stripe, behind B, which waits to have it alone". Only a timeout can break a cycle of such edges.
// Suppose an async writer is in front of A and its thread runs. It counts only if it has neither deadline nor signal:
// then it stays until its thread closes the lock, blocks, or ends. Only threads that have slept for a slice enter the
// graph, so short waits pay nothing.
//
// A thread that waits for a permit may continue when any of its holders continues. It counts as waiting only if blocked
// threads have all permits, and is stuck only if all of these are stuck. Any other thread is stuck if one of the
// threads that it waits for is. So the search starts with all threads that this one waits for, directly or not, and
// repeatedly removes those that may continue (`stuckFrom`). A cycle in the rest is a deadlock.
//
// A cycle is found edge by edge, while other threads run. So a second pass must confirm it: every stuck thread must
// still be in the wait of the first pass. Then all edges held together at the moment between the two. Leaving a wait
// takes the graph's mutex, and a waiter that was granted or withdrawn never waits again, so this check is exact. If one
// of the threads has left its wait, the next slice searches again.

#pragma once

#include <unordered_map>
#include <vector>

#include "core/membership.h"

namespace stripelock {

// A thread, by its host number, and the stripe that it waits for.
struct Blocked {
  std::int32_t threadId;
  std::uint32_t stripe;
};

class WaitGraph {
 public:
  static WaitGraph& instance();

  // Enters the thread, and checks whether its wait is part of a cycle. If so, withdraws the waiter and returns the
  std::vector<Blocked> refuse(Participant& thread, Waiter& waiter);
  void leave(Participant& thread);

 private:
  // Why a blocked thread cannot continue.
  struct Wait {
    // Blocked threads. All of them must continue before this thread can; if `any`, one of them.
    std::vector<Participant*> blockers;
    bool any = false;
  };
  using Waits = std::unordered_map<Participant*, Wait>;

  static std::vector<Participant*> findCycle(Participant& start, const Waits& stuck);
  // The stuck threads that `start` waits for, directly or not. Contains `start` if it is part of a cycle. Empty if none
  // of them waits for it.
  Waits stuckFrom(Participant& start);
  static bool isStuck(const Wait& wait, const Waits& stuck);
  // The second pass.
  bool holds(const std::vector<Participant*>& cycle, const Waits& stuck);
  Wait waitOf(Participant& thread);
  static Wait waitForPermit(Participant& thread, Table& table, std::uint32_t stripe);

  Mutex mutex_;
};

}  // namespace stripelock
