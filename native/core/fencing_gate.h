// The highest fencing token admitted for each key, for all threads of the process, in bounded memory.
//
// A shard that is full forgets the key with its lowest token, and raises its floor to that token.
//
// I1  For a key that is remembered, what is remembered is the highest token admitted for it.
// I2  For every other key of the shard, no token above the floor was ever admitted.
//
// So a token that is not below what is remembered, or else the floor, is not stale. One of a forgotten key that is
// below the floor may be: it is refused. Tokens rise with time, so that this hits those only that were issued before
// the oldest of the keys that are remembered was last written with.

#pragma once

#include <vector>

#include "core/indexed_heap.h"
#include "core/key_table.h"
#include "core/sync.h"

namespace stripelock {

class FencingGate {
 public:
  // Remembers about so many keys; they are spread by their hash. `floor`: see I2.
  FencingGate(std::uint32_t capacity, std::uint64_t floor);

  // 0 if the token is admitted, else the higher one on account of which it is refused.
  std::uint64_t admit(const KeyView& key, std::uint64_t token);
  // The highest admitted for any key.
  std::uint64_t highest() const { return highest_.load(); }
  std::size_t size() const { return size_.load(); }

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
    KeyTable<Entry> entries;
    IndexedHeap<std::uint64_t, Entry> tokens;
  };

  void forgetLowest(Shard& shard);

  const std::size_t shardCapacity_;
  // One where there are too few keys to spread.
  std::vector<Shard> shards_;
  std::atomic<std::uint64_t> highest_{0};
  std::atomic<std::size_t> size_{0};
};

}  // namespace stripelock
