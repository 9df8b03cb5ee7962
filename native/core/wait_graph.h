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
// A cycle is found edge by edge, while other threads run. It counts only after a second look finds every one of its
// threads still in the wait of the first look: then all edges held together at the moment between the two. Leaving a
// wait takes the graph's mutex, and a waiter once granted or withdrawn never waits again, so "still in the wait" is
// exact.

#pragma once

#include <vector>

#include "core/membership.h"

namespace stripelock {

class WaitGraph {
 public:
  static WaitGraph& instance();

  // Enters the thread, and checks whether its wait is part of a cycle. If so, withdraws the waiter and returns the
  // cycle,
  // this thread first; the others go on. Otherwise returns nothing.
  std::vector<Blocked> refuse(Participant& thread, Waiter& waiter);
  void leave(Participant& thread);

 private:
  std::vector<Participant*> findCycle(Participant& start);
  std::vector<Participant*> blockersOf(Participant& thread);

  Mutex mutex_;
};

}  // namespace stripelock
