#include "core/wait_graph.h"

#include <algorithm>
#include <unordered_set>

#include "core/participant.h"
#include "core/registry.h"

namespace stripelock {

WaitGraph& WaitGraph::instance() {
  // Never destroyed: threads may outlive static destruction.
  static WaitGraph& graph = *new WaitGraph();
  return graph;
}

std::vector<Blocked> WaitGraph::refuse(Participant& thread, Waiter& waiter) {
  const Lock lock(mutex_);
  thread.blockedOn = &waiter;
  const std::vector<Participant*> cycle = findCycle(thread);
  STRIPELOCK_SEAM("refuse: before the second look");
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const std::vector<Participant*> blockers = blockersOf(*cycle[i]);
    Participant* const next = cycle[(i + 1) % cycle.size()];
    if (std::find(blockers.begin(), blockers.end(), next) == blockers.end()) return {};
  }
  if (cycle.empty()) return {};
  std::vector<Blocked> blocked;
  blocked.reserve(cycle.size());
  for (const Participant* participant : cycle) {
    blocked.push_back({participant->threadId(), participant->blockedOn->stripe()});
  }
  // This succeeds, since the holder of what it waits for leaves the cycle only through this mutex. It fails only if
  // somebody overwrote the words: then the waiter was granted.
  if (!waiter.membership->table().withdraw(waiter)) return {};
  thread.blockedOn = nullptr;
  return blocked;
}

void WaitGraph::leave(Participant& thread) {
  // Only this thread writes blockedOn, so it can read it here without the mutex.
  if (!thread.blockedOn) return;
  const Lock lock(mutex_);
  thread.blockedOn = nullptr;
}

// Depth-first search without recursion. Returns the path from `start` back to it, or nothing.
std::vector<Participant*> WaitGraph::findCycle(Participant& start) {
  struct Step {
    Participant* participant;
    std::vector<Participant*> blockers;
  };
  std::vector<Step> path;
  std::unordered_set<Participant*> seen{&start};
  path.push_back({&start, blockersOf(start)});
  while (!path.empty()) {
    std::vector<Participant*>& blockers = path.back().blockers;
    if (blockers.empty()) {
      path.pop_back();
      continue;
    }
    Participant* const next = blockers.back();
    blockers.pop_back();
    if (next == &start) {
      std::vector<Participant*> cycle;
      cycle.reserve(path.size());
      for (const Step& step : path) cycle.push_back(step.participant);
      return cycle;
    }
    if (seen.insert(next).second) path.push_back({next, blockersOf(*next)});
  }
  return {};
}

// The blocked threads that must go on before this one can.
std::vector<Participant*> WaitGraph::blockersOf(Participant& thread) {
  std::vector<Participant*> blockers;
  if (!thread.blockedOn) return blockers;
  Waiter& waiter = *thread.blockedOn;
  Table& table = waiter.membership->table();
  const Lock lock = table.lockFor(waiter);
  // A designated waiter is awake, and about to try; so is one that goes on.
  if (!waiter.is(WaiterState::kWaiting)) return blockers;
  const std::uint32_t stripe = waiter.stripe();
  const std::uint32_t word = table.word(stripe).load();
  // A grant that its thread has not noticed yet is not held for good: a blocked thread gives it back.
  const auto add = [&](Participant* holder) {
    if (holder && holder->blockedOn && holder->undelivered() == 0) blockers.push_back(holder);
  };
  if (namesHolder(word)) {
    add(Registry::instance().bySlot(holderOf(word)));
  } else if (countsHolds(word)) {
    bool waitsForHolders = !goTogether(modeOf(word), waiter.mode);
    if (!waitsForHolders) {
      // Other readers do not block it. A writer that came before it does: a sync writer until its thread goes on, an
      // async writer that will not give up until all readers have gone.
      for (Waiter* other = table.queueOf(stripe).head; other != &waiter; other = other->next) {
        if (goTogether(other->mode, waiter.mode) || passOver(*other)) continue;
        if (!other->async) {
          add(other->owner);
        } else if (!other->mayGiveUp) {
          waitsForHolders = true;
        }
      }
    }
    if (!waitsForHolders) return blockers;
    const Lock members(table.membersMutex);
    for (Membership* member : table.members) {
      if (member->sharesOf(stripe) != 0) add(&member->participant());
    }
  }
  return blockers;
}

}  // namespace stripelock
