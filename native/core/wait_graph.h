// Which threads block in sync waits, and whether some of them wait for each other in a cycle.
//
// A thread that blocks can release nothing. So an edge "A waits for a stripe that B holds, in a mode that does not go
// together with A's", once true, stays true as long as both block, whatever other threads do. The same holds for "A
// waits to share a stripe, behind B, which waits to have it alone". Only a timeout can break a cycle of such edges. An
// async writer
// in front of A, whose thread runs, counts only if it has neither deadline nor signal: it then stays as long as its
// thread does not close the lock, block, or end. Only threads that have slept for a slice enter the graph, so short
// waits pay nothing.
//
// A thread that waits for a permit may continue when any of its holders continues. It counts as waiting only if blocked
// threads have all permits, and is stuck only if all of these are. Any other thread is stuck if one of those that it
// waits for is. So the search begins with all threads that this one waits for, directly or not, and leaves out, again
// and again, those that may continue (`stuckFrom`). A cycle of the rest is a deadlock.
//
// A cycle is found edge by edge, while other threads run. It counts only after a second look finds every thread that
// was found stuck still in the wait of the first look: then all edges held together at the moment between the two.
// Leaving a wait takes the graph's mutex, and a waiter once granted or withdrawn never waits again, so "still in the
// wait" is exact. If one of them has left its wait, the next slice looks again.

#pragma once

#include <unordered_map>
#include <vector>

#include "core/membership.h"

namespace stripelock {

// A thread, by the number shown to people, and the stripe that it waits for.
struct Blocked {
  std::int32_t threadId;
  std::uint32_t stripe;
};

class WaitGraph {
 public:
  static WaitGraph& instance();

  // Enters the thread, and checks whether its wait is part of a cycle. If so, withdraws the waiter and returns the
  // cycle,
  // this thread first; the others go on. Otherwise returns nothing.
  std::vector<Blocked> refuse(Participant& thread, Waiter& waiter);
  void leave(Participant& thread);

 private:
  // Why a blocked thread cannot go on.
  struct Wait {
    // Blocked threads: each of them must go on before it can or, if `any`, one of them.
    std::vector<Participant*> blockers;
    bool any = false;
  };
  using Waits = std::unordered_map<Participant*, Wait>;

  static std::vector<Participant*> findCycle(Participant& start, const Waits& stuck);
  // The threads that `start` waits for, directly or not, and that are stuck. Contains `start` if it is part of a cycle;
  // nothing if none of them waits for it.
  Waits stuckFrom(Participant& start);
  static bool isStuck(const Wait& wait, const Waits& stuck);
  // The second look.
  bool holds(const std::vector<Participant*>& cycle, const Waits& stuck);
  Wait waitOf(Participant& thread);
  static Wait waitForPermit(Participant& thread, Table& table, std::uint32_t stripe);

  Mutex mutex_;
};

}  // namespace stripelock
