#include "core/leases/lease_registry.h"

#include <algorithm>

namespace stripelock {

LeaseRegistry& LeaseRegistry::instance() {
  // Never destroyed: threads may outlive static destruction.
  static LeaseRegistry& registry = *new LeaseRegistry();
  return registry;
}

std::uint64_t LeaseRegistry::issue() {
  const Lock lock(mutex_);
  return next_++;
}

std::uint64_t LeaseRegistry::issueGate() {
  const Lock lock(mutex_);
  gates_.try_emplace(next_);
  return next_++;
}

LeaseTable* LeaseRegistry::openTable(std::uint64_t number, bool ownClock) {
  const Lock lock(mutex_);
  if (!issued(number)) return nullptr;
  SharedTable& entry = tables_[number];
  if (!entry.table) {
    entry.table =
        std::make_unique<LeaseTable>(std::max(static_cast<std::uint64_t>(wallClock()), firstToken_));
    entry.ownClock = ownClock;
  } else if (entry.users == 0) {
    --unused_;
  }
  ++entry.users;
  LeaseTable* const table = entry.table.get();
  sweepUnused();
  return table;
}

void LeaseRegistry::closeTable(std::uint64_t number) {
  const Lock lock(mutex_);
  if (--tables_.find(number)->second.users > 0) return;
  ++unused_;
  sweepUnused();
}

FencingGate* LeaseRegistry::openGate(std::uint64_t number, std::uint32_t capacity) {
  const Lock lock(mutex_);
  if (!issued(number)) return nullptr;
  const auto [place, forgotten] = gates_.try_emplace(number);
  SharedGate& entry = place->second;
  if (forgotten) entry.floor = forgotten_;
  // mutant: gate-counted-twice
  if (entry.remembered) --remembered_;
  entry.remembered = false;
  if (!entry.gate) entry.gate = std::make_unique<FencingGate>(capacity, entry.floor);
  ++entry.users;
  return entry.gate.get();
}

void LeaseRegistry::closeGate(std::uint64_t number) {
  const Lock lock(mutex_);
  SharedGate& entry = gates_.find(number)->second;
  if (--entry.users > 0) return;
  entry.floor = entry.gate->highest();
  entry.gate.reset();
  entry.remembered = true;
  if (++remembered_ > kRemembered) forgetLowestGate();
}

void LeaseRegistry::forgetLowestGate() {
  auto lowest = gates_.end();
  for (auto place = gates_.begin(); place != gates_.end(); ++place) {
    if (!place->second.remembered) continue;
    if (lowest == gates_.end() || place->second.floor < lowest->second.floor) lowest = place;
  }
  forgotten_ = std::max(forgotten_, lowest->second.floor);
  gates_.erase(lowest);
  --remembered_;
}

std::size_t LeaseRegistry::gates() {
  const Lock lock(mutex_);
  return gates_.size();
}

std::size_t LeaseRegistry::tables() {
  const Lock lock(mutex_);
  return tables_.size();
}

void LeaseRegistry::sweepUnused() {
  if (unused_ == 0) return;
  for (auto place = tables_.begin(); place != tables_.end();) {
    const SharedTable& entry = place->second;
    const bool unused = entry.users == 0;
    if (unused && (entry.ownClock ? entry.table->size() == 0 : entry.table->sweepAll(LeaseTable::kElapsed))) {
      firstToken_ = std::max(firstToken_, entry.table->nextToken());
      place = tables_.erase(place);
      --unused_;
    } else {
      ++place;
    }
  }
}

}  // namespace stripelock
