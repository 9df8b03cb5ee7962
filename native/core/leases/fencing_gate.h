// The highest fencing token admitted for each key, for all threads of the process, in bounded memory.
//
// When a shard is full, it forgets the key with its lowest token, and raises its floor to that token. A small gate has
// one shard; a larger gate spreads its keys over several. lib/engine/javascript/gate.ts follows the same rule.
//
// G1  With each remembered key, the gate stores the highest token admitted for that key.
// G2  For every other key of the shard, no token above the floor was ever admitted.
//
// So a token may be stale, and is refused, in two cases: its key is remembered with a higher token; or its key is not
// remembered, and the token is below the floor. Tokens rise with time, so a refused token of a forgotten key is older
// than the last token of every remembered key.

#pragma once

#include <vector>

#include "core/base/indexed_heap.h"
#include "core/base/key_map.h"
#include "core/base/sync.h"

namespace stripelock {

class FencingGate {
 public:
  // Remembers about `capacity` keys, spread over shards by their hash. `floor`: see G2.
  FencingGate(std::uint32_t capacity, std::uint64_t floor);

  // Returns 0 if the token is admitted, else the higher token that caused the refusal.
  std::uint64_t admit(const KeyView& key, std::uint64_t token);
  // The highest token admitted for any key.
  std::uint64_t highest() const { return highest_.load(); }
  // The number of remembered keys. Adds up the shards one after the other, so the sum is not a snapshot.
  std::size_t size();

 private:
  static constexpr std::uint32_t kShards = 16;

  struct Entry : KeyNode<Entry> {
    using KeyNode::KeyNode;
    std::uint64_t token = 0;
    std::uint32_t place = 0;
  };
  struct alignas(64) Shard {
    Mutex mutex;
    std::uint64_t floor = 0;
    KeyMap<Entry> entries;
    IndexedHeap<std::uint64_t, Entry> tokens;
  };

  void forgetLowest(Shard& shard);

  const std::size_t shardCapacity_;
  // One shard if the capacity is too small for several.
  std::vector<Shard> shards_;
  std::atomic<std::uint64_t> highest_{0};
};

}  // namespace stripelock
