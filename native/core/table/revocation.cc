#include "core/table/revocation.h"

#include "core/table/membership.h"
#include "core/table/participant.h"
#include "core/table/registry.h"

namespace stripelock {

namespace {

// The participants that may hold the stripe for a waiter that is still in their ready list, and the owner of the
// designated waiter. Participants are never freed, so the pointers stay valid.
std::vector<Participant*> candidates(Table& table, std::uint32_t stripe, const Participant& self) {
  std::vector<Participant*> found;
  const auto add = [&](Participant* participant) {
    if (participant && participant != &self) found.push_back(participant);
  };
  const auto addHolder = [&](Participant* participant) {
    if (participant && participant->hasReady()) add(participant);
  };
  if (table.queueOf(stripe).designated.load()) {
    // The shard is locked, so the waiter cannot be freed while it is read.
    const Lock lock(table.shardOf(stripe));
    const Waiter* const designated = table.queueOf(stripe).designated.load();
    // mutant: I7-turn-of-absent
    if (designated && designated->async) add(designated->owner);
  }
  const std::uint32_t word = table.word(stripe).load();
  if (namesHolder(word)) {
    addHolder(Registry::instance().bySlot(holderOf(word)));
  } else if (countsHolds(word)) {
    const Lock members(table.membersMutex);
    for (const Membership* member : table.members) addHolder(&member->participant());
  }
  return found;
}

}  // namespace

bool revokeIdle(Table& table, std::uint32_t stripe, const Participant& self, bool last) {
  bool any = false;
  for (Participant* const participant : candidates(table, stripe, self)) {
    if (participant->asyncWaits().revoke(table, stripe, last)) any = true;
  }
  return any;
}

}  // namespace stripelock
