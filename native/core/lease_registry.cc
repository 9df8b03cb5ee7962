#include "core/lease_registry.h"

#include <algorithm>

namespace stripelock {

namespace {

std::uint64_t wallClock() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

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
  SharedTable& shared = tables_[number];
  if (!shared.table) {
    shared.table = std::make_unique<LeaseTable>(std::max(wallClock(), firstToken_));
    shared.ownClock = ownClock;
  } else if (shared.users == 0) {
    --unused_;
  }
  ++shared.users;
  LeaseTable* const table = shared.table.get();
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
  SharedGate& shared = place->second;
  if (forgotten) shared.floor = forgotten_;
  if (shared.remembered) --remembered_;
  shared.remembered = false;
  if (!shared.gate) shared.gate = std::make_unique<FencingGate>(capacity, shared.floor);
  ++shared.users;
  return shared.gate.get();
}

void LeaseRegistry::closeGate(std::uint64_t number) {
  const Lock lock(mutex_);
  SharedGate& shared = gates_.find(number)->second;
  if (--shared.users > 0) return;
  shared.floor = shared.gate->highest();
  shared.gate.reset();
  shared.remembered = true;
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
    const SharedTable& shared = place->second;
    const bool unused = shared.users == 0;
    if (unused &&
        (shared.ownClock ? shared.table->size() == 0 : shared.table->sweepAll(LeaseTable::kSteady))) {
      firstToken_ = std::max(firstToken_, shared.table->nextToken());
      place = tables_.erase(place);
      --unused_;
    } else {
      ++place;
    }
  }
}

}  // namespace stripelock
