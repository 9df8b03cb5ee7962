#include "core/table/wait_graph.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "core/table/participant.h"
#include "core/table/registry.h"

namespace stripelock {

namespace {

// Whether the thread is blocked and keeps its stripes. A blocked thread still gives back grants that it has not
// collected.
bool staysBlocked(const Participant& holder) { return holder.blockedOn && holder.undelivered() == 0; }

}  // namespace

Blocked::Blocked(std::int32_t thread, const Table& of, std::uint32_t waitsFor)
    : threadId(thread), table(&of), stripe(waitsFor), key(of.gate() ? of.keys()->keyOf(waitsFor) : "") {}

WaitGraph& WaitGraph::instance() {
  // Never destroyed: threads may outlive static destruction.
  static WaitGraph& graph = *new WaitGraph();
  return graph;
}

std::vector<Blocked> WaitGraph::refuse(Participant& thread, Waiter& waiter) {
  const Lock lock(mutex_);
  thread.blockedOn = &waiter;
  const Waits stuck = stuckFrom(thread);
  const std::vector<Participant*> cycle = findCycle(thread, stuck);
  STRIPELOCK_SEAM("refuse: before the second look");
  // mutant: graph-one-look
  if (cycle.empty() || !holds(cycle, stuck)) return {};
  std::vector<Blocked> blocked;
  blocked.reserve(cycle.size());
  for (const Participant* participant : cycle) {
    const Waiter& wait = *participant->blockedOn;
    blocked.emplace_back(participant->threadId(), wait.membership->table(), wait.stripe());
  }
  // withdraw() succeeds, because the holder of the awaited stripe can leave the cycle only under this mutex. The call
  // fails only if words were overwritten, so that the waiter was granted.
  if (!waiter.membership->table().withdraw(waiter)) return {};
  thread.blockedOn = nullptr;
  return blocked;
}

void WaitGraph::leave(Participant& thread) {
  // Only this thread writes blockedOn, so this thread can read it without the mutex.
  if (!thread.blockedOn) return;
  const Lock lock(mutex_);
  thread.blockedOn = nullptr;
}

bool WaitGraph::holds(const std::vector<Participant*>& cycle, const Waits& stuck) {
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Wait wait = waitOf(*cycle[i]);
    Participant* const next = cycle[(i + 1) % cycle.size()];
    if (std::find(wait.blockers.begin(), wait.blockers.end(), next) == wait.blockers.end()) return false;
  }
  return std::all_of(stuck.begin(), stuck.end(),
                     [&](const auto& entry) { return isStuck(waitOf(*entry.first), stuck); });
}

bool WaitGraph::isStuck(const Wait& wait, const Waits& stuck) {
  const auto isIn = [&](Participant* blocker) { return stuck.count(blocker) != 0; };
  if (!wait.any) return std::any_of(wait.blockers.begin(), wait.blockers.end(), isIn);
  // mutant: permits-any-way-out
  return !wait.blockers.empty() && std::all_of(wait.blockers.begin(), wait.blockers.end(), isIn);
}

WaitGraph::Waits WaitGraph::stuckFrom(Participant& start) {
  Waits waits;
  std::vector<Participant*> open{&start};
  // Whether any thread waits for `start`. Usually none does, so there is no cycle.
  bool isAwaited = false;
  while (!open.empty()) {
    Participant* const participant = open.back();
    open.pop_back();
    if (waits.count(participant) != 0) continue;
    const Wait& wait = waits.emplace(participant, waitOf(*participant)).first->second;
    open.insert(open.end(), wait.blockers.begin(), wait.blockers.end());
    const auto end = wait.blockers.end();
    isAwaited = isAwaited || std::find(wait.blockers.begin(), end, &start) != end;
  }
  if (!isAwaited) return {};
  for (bool changed = true; changed;) {
    changed = false;
    for (auto entry = waits.begin(); entry != waits.end();) {
      const bool stays = isStuck(entry->second, waits);
      entry = stays ? std::next(entry) : waits.erase(entry);
      changed = changed || !stays;
    }
  }
  return waits;
}

// Depth-first search without recursion, through stuck threads. Returns the path from `start` back to `start`, or an
// empty list.
std::vector<Participant*> WaitGraph::findCycle(Participant& start, const Waits& stuck) {
  struct Step {
    Participant* participant;
    std::vector<Participant*> blockers;
  };
  std::vector<Step> path;
  std::unordered_set<Participant*> seen;
  const auto enter = [&](Participant* participant) {
    const auto found = stuck.find(participant);
    if (found == stuck.end() || !seen.insert(participant).second) return;
    path.push_back({participant, found->second.blockers});
  };
  enter(&start);
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
    enter(next);
  }
  return {};
}

WaitGraph::Wait WaitGraph::waitOf(Participant& thread) {
  Wait wait;
  std::vector<Participant*>& blockers = wait.blockers;
  if (!thread.blockedOn) return wait;
  Waiter& waiter = *thread.blockedOn;
  Table& table = waiter.membership->table();
  const Lock lock = table.lockFor(waiter);
  // A designated waiter is awake and about to try. A waiter that takes the rest of its stripes is awake, too.
  if (!waiter.is(WaiterState::kWaiting)) return wait;
  const std::uint32_t stripe = waiter.stripe();
  if (hasPermits(table.limit())) return waitForPermit(thread, table, stripe);
  const std::uint32_t word = table.word(stripe).load();
  const auto add = [&](Participant* holder) {
    // mutant: graph-undelivered
    if (holder && staysBlocked(*holder)) blockers.push_back(holder);
  };
  if (namesHolder(word)) {
    add(Registry::instance().bySlot(holderOf(word)));
  } else if (countsHolds(word)) {
    bool waitsForHolders = !goTogether(modeOf(word), waiter.mode);
    if (!waitsForHolders) {
      // Other readers do not block this reader, but an earlier writer does. A sync writer blocks this reader until the
      // writer's thread continues. An async writer that does not give up blocks this reader until all readers have
      // released.
      for (Waiter* other = table.queueOf(stripe).head; other != &waiter; other = other->next) {
        // mutant: graph-writer-between
        if (goTogether(other->mode, waiter.mode) || passOver(*other)) continue;
        if (!other->async) {
          add(other->owner);
        } else if (!other->mayGiveUp) {
          waitsForHolders = true;
        }
      }
    }
    if (!waitsForHolders) return wait;
    const Lock members(table.membersMutex);
    for (Membership* member : table.members) {
      if (member->sharesOf(stripe) != 0) add(&member->participant());
    }
  }
  return wait;
}

// Call it with the stripe's shard locked.
WaitGraph::Wait WaitGraph::waitForPermit(Participant& thread, Table& table, std::uint32_t stripe) {
  Wait wait{.blockers = {}, .any = true};
  std::uint32_t permits = 0;
  const Lock members(table.membersMutex);
  for (const Membership* member : table.members) {
    const std::uint32_t shares = member->sharesOf(stripe);
    Participant& holder = member->participant();
    if (shares == 0 || !staysBlocked(holder)) continue;
    permits += shares;
    if (&holder != &thread) wait.blockers.push_back(&holder);
  }
  // At least one permit belongs to a running thread, or is not counted yet, so it may become free.
  // mutant: permits-some-free
  if (permits < table.limit()) wait.blockers.clear();
  return wait;
}

}  // namespace stripelock
