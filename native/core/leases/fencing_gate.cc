#include "core/leases/fencing_gate.h"

#include <algorithm>

namespace stripelock {

FencingGate::FencingGate(std::uint32_t capacity, std::uint64_t floor)
    : shardCapacity_(std::max(1u, capacity < kShards * kShards ? capacity : capacity / kShards)),
      shards_(capacity < kShards * kShards ? 1 : kShards),
      highest_(floor) {
  for (Shard& shard : shards_) shard.floor = floor;
}

std::uint64_t FencingGate::admit(const KeyView& key, std::uint64_t token) {
  Shard& shard = shards_[shards_.size() == 1 ? 0 : shardOf<kShards>(key)];
  const Lock lock(shard.mutex);
  if (Entry* const entry = shard.entries.find(key)) {
    if (token < entry->token) return entry->token;
    if (token == entry->token) return 0;
    entry->token = token;
    shard.tokens.move(*entry, token);
  } else {
    // mutant: gate-forgets
    if (token < shard.floor) return shard.floor;
    if (shard.entries.size() == shardCapacity_) forgetLowest(shard);
    Entry& added = shard.entries.add(std::make_unique<Entry>(key));
    added.token = token;
    shard.tokens.add(added, token);
  }
  std::uint64_t highest = highest_.load();
  while (highest < token && !highest_.compare_exchange_weak(highest, token)) {
  }
  return 0;
}

std::size_t FencingGate::size() {
  std::size_t sum = 0;
  for (Shard& shard : shards_) {
    const Lock lock(shard.mutex);
    sum += shard.entries.size();
  }
  return sum;
}

void FencingGate::forgetLowest(Shard& shard) {
  Entry& lowest = shard.tokens.least();
  shard.floor = std::max(shard.floor, lowest.token);  // preserves G2
  shard.tokens.remove(lowest);
  shard.entries.remove(lowest);
}

}  // namespace stripelock
