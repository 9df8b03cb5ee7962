// Gives each key in use a stripe of its own, so that a table of stripes is a table of exact keys.
//
// A thread pins a key before it touches the key's stripe, and may keep it pinned while it does not use it: then it finds
// the stripe without a call. Each thread pins a key once; Membership::pin and unpin see to that.
//
// Invariants, for each stripe, whenever the shard of its key is not locked:
//   N1  No two keys have the same stripe at one time, and no key has two.
//   N2  A key keeps its stripe while a thread has it pinned, and while the stripe's word is not 0. (Then, if nobody has it
//       pinned, the word is abandoned: the next holder is to be told. Such keys are orphans. The oldest of more than
//       mostOrphans() are forgotten, and so are all that are in the way of a key that needs a stripe.)
//   N3  A thread touches a word, or links a waiter, only while it has the key pinned. So nobody else changes a word
//       whose key has no pins, and a stripe that is given to another key is free and has no queue.
//   N4  A thread unpins a key only when it neither holds it nor waits for it, and not between looking it up and taking it.
//       The second half is kept by whoever looks up (lib/lock/named-index.ts), also in the addon's own calls.
//   N5  A stripe is either free (in free_, or from used_ on), or of one key.
//
// A thread that ends abandons what it holds, and then unpins everything (Registry::end). It may end between any two of
// its calls here, never within one: each call changes the table under the key's shard, and leaves N1 – N5 true. What it
// had looked up and not taken yet it had pinned, which unpinAll() ends.
//
// Lock order: the shard of a key, then the shard of its stripe (inspection only) or freeMutex_.

#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/key_table.h"
#include "core/sync.h"

namespace stripelock {

class Table;

class NameTable {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffu;

  explicit NameTable(Table& table);
  NameTable(const NameTable&) = delete;
  NameTable& operator=(const NameTable&) = delete;

  // The stripe of the key, with one more pin. kNone: all stripes have other keys.
  std::uint32_t pin(const KeyView& key);
  // One pin fewer. The caller has one.
  void unpin(std::uint32_t stripe);

  // Keys that have a stripe.
  std::uint32_t size() const { return size_.load(); }
  // Whether so many stripes have keys that threads should keep pinned only what they use.
  bool isCrowded() const;
  // No stripe from here on was ever in use.
  std::uint32_t used() const { return used_.load(); }
  // How many abandoned keys that nobody has pinned are kept.
  std::uint32_t mostOrphans() const { return mostOrphans_; }
  std::uint32_t orphans();

  // Calls visit(key, stripe) for each key, with its shard locked, so that the key keeps its stripe meanwhile.
  template <typename Visit>
  void forEach(Visit visit) {
    for (Shard& shard : shards_) {
      const Lock lock(shard.mutex);
      shard.names.forEach([&](Name& name) { visit(name.key.view().text, name.stripe); });
    }
  }

 private:
  static constexpr std::uint32_t kShards = 64;

  // Everything is guarded by the key's shard, but for the links, which freeMutex_ guards.
  struct Name : KeyNode<Name> {
    using KeyNode::KeyNode;
    std::uint32_t stripe = 0;
    std::uint32_t pins = 0;
    bool orphan = false;
    Name* older = nullptr;
    Name* newer = nullptr;
  };
  struct alignas(64) Shard {
    Mutex mutex;
    KeyTable<Name> names;
    // Memory of a key that was dropped, for the next one.
    std::unique_ptr<Name> spare;
  };
  struct Freed {
    void operator()(Name** names) const;
  };

  Shard& shardFor(const Name& name) { return shards_[shardOf<kShards>(name.key.view())]; }
  std::uint32_t allocate();
  // The key has no pins, and its word is 0.
  void drop(Shard& shard, Name& name);
  void addOrphan(Name& name);
  void removeOrphan(Name& name);
  void unlinkOrphan(Name& name);
  // Forgets the oldest orphan and frees its stripe. False: there is none.
  bool forgetOldest();

  Table& table_;
  std::array<Shard, kShards> shards_;
  // Who has read the entry of a stripe under the shard of its key may read it again while the key is pinned.
  std::unique_ptr<Name*[], Freed> byStripe_;
  const std::uint32_t mostOrphans_;
  std::atomic<std::uint32_t> size_{0};

  Mutex freeMutex_;
  std::vector<std::uint32_t> free_;
  std::atomic<std::uint32_t> used_{0};
  Name* oldestOrphan_ = nullptr;
  Name* newestOrphan_ = nullptr;
  std::uint32_t orphans_ = 0;
};

}  // namespace stripelock
