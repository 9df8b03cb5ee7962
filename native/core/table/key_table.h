// Maps each key in use to a separate stripe, so that a table of stripes becomes a table of exact keys.
//
// A thread pins a key before it touches the key's stripe. It may keep an unused key pinned, to find the stripe later
// without a call. Each thread pins a key once; key_pins.h ensures that.
//
// Invariants, for each stripe, whenever the shard of its key is not locked:
//   N1  At any time a key has at most one stripe, and a stripe at most one key.
//   N2  A key keeps its stripe while a thread has it pinned, and while the stripe's word is not 0. A key without pins
//       whose word is not 0 is an orphan: its word is abandoned, and its next holder sees that. If there are more than
//       mostOrphans(), the oldest are forgotten. The oldest orphan is also forgotten if a key needs its stripe. When
//       the last thread leaves the table, its orphans stay in the shared memory, as hashes, and the next table on that
//       memory restores them.
//   N3  A thread touches a word, or links a waiter, only while it has the key pinned. So if a key has no pins, no other
//       thread changes its word. A stripe that is given to another key is free and has no queue.
//   N4  A thread unpins a key only when it neither holds the key nor waits for it, and never between looking it up
//       and acquiring it. lib/lock/pinned-keys.ts ensures the second part, also within the addon's own calls.
//   N5  A stripe is free (in one shard's list, or at used_ and above), belongs to one key of any shard, or belongs to a
//       running call. That call will give it to a key or free it.
//
// A thread that ends abandons its holds and then unpins its keys (Registry::end). It may end between two calls here,
// but not within one. Each call changes the table under the key's shard, and leaves N1 – N5 true. If the thread had
// looked up a key without acquiring it, unpinAll() ends that pin.
//
// Each shard gives its free stripes to its own keys first, so adding and removing a key locks only one shard. A shard
// without free stripes takes one from another shard. So a key is refused only if no shard has a free stripe.
//
// Lock order: the shard of a key, then the shard of its stripe (inspection only) or orphansMutex_. No thread locks
// the shards of two keys at once.

#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/base/key_map.h"
#include "core/base/short_mutex.h"
#include "core/base/sync.h"
#include "core/base/zeroed.h"

namespace stripelock {

class Table;

class KeyTable {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  static constexpr std::uint32_t kShards = 64;

  // Restores the orphans that the last table on this memory left.
  explicit KeyTable(Table& table);
  // Leaves the orphans in the memory, which has room only for their hashes. Another key is extremely unlikely to have
  // the same hash, and would only see a wrong `abandoned`.
  ~KeyTable();
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  struct Pinned {
    // kNone: all stripes have other keys.
    std::uint32_t stripe;
    // More than half of the stripes have keys, so the thread should keep only used keys pinned. Then the idle keys of
    // all threads occupy at most half of the stripes, plus a few for each thread.
    bool crowded = false;
  };
  // Pins the key and returns its stripe. `idle`: a stripe that the caller has pinned and no longer needs; this pin
  // ends. If that frees the stripe, a new key gets it at once. That costs half as much as freeing it and finding
  // another.
  Pinned pin(const KeyView& key, std::uint32_t idle = kNone);
  // Removes one of the caller's pins.
  void unpin(std::uint32_t stripe);
  static std::uint32_t shardOf(const KeyView& key) { return stripelock::shardOf<kShards>(key); }

  // The number of keys that have a stripe.
  std::size_t size();
  // Stripes from this one on were never used.
  std::uint32_t used() const { return used_.load(); }
  // The largest number of orphans that are kept.
  std::uint32_t mostOrphans() const { return mostOrphans_; }
  std::uint32_t orphans() const { return orphans_.load(); }

  // The key of a stripe that the calling thread has pinned.
  std::string_view keyOf(std::uint32_t stripe) const { return byStripe_[stripe]->key.view().text; }

  // If the key has a stripe, calls visit(stripe) with the key's shard locked, so the key keeps the stripe during the
  // call.
  template <typename Visit>
  void find(const KeyView& key, Visit visit) {
    Shard& shard = shards_[shardOf(key)];
    const ShortLock lock(shard.mutex);
    if (const Entry* const entry = shard.entries.find(key)) visit(entry->stripe);
  }
  // Calls visit(key, stripe) for each key, with the key's shard locked, so the key keeps its stripe during the call.
  template <typename Visit>
  void forEach(Visit visit) {
    for (Shard& shard : shards_) {
      const ShortLock lock(shard.mutex);
      shard.entries.forEach([&](Entry& entry) { visit(entry.key.view().text, entry.stripe); });
    }
  }

 private:
  // Guarded by the key's shard, except `older` and `newer`, which orphansMutex_ guards.
  struct Entry : KeyNode<Entry> {
    using KeyNode::KeyNode;
    std::uint32_t stripe = 0;
    std::uint32_t pins = 0;
    bool orphan = false;
    Entry* older = nullptr;
    Entry* newer = nullptr;
  };
  struct alignas(64) Shard {
    Shard() = default;
    Shard(const Shard&) = delete;
    Shard& operator=(const Shard&) = delete;
    ShortMutex mutex;
    KeyMap<Entry> entries;
    std::vector<std::uint32_t> free;
    // Memory of dropped keys, reused for new ones. Linked by KeyNode::next.
    Entry* spare = nullptr;
    std::uint32_t spares = 0;
    ~Shard();
  };

  static std::unique_ptr<Entry> make(Shard& shard, const KeyView& key);
  static void destroy(Shard& shard, std::unique_ptr<Entry> entry);
  // Adds the stripe of a removed entry to the shard's free stripes. Call it with the shard locked.
  static void release(Shard& shard, std::unique_ptr<Entry> entry);
  Shard& shardFor(const Entry& entry) { return shards_[shardOf(entry.key.view())]; }
  // Pins the key. `own`: an unused entry with a stripe; the caller owns both. A new key gets both. If the key already
  // has a stripe, both are freed.
  Pinned pinWith(const KeyView& key, std::unique_ptr<Entry> own);
  // Call these three with the shard locked.
  Pinned pinLocked(Shard& shard, const KeyView& key);
  Pinned pinKnown(Shard& shard, Entry& entry, const KeyView& key);
  Pinned add(Shard& shard, std::unique_ptr<Entry> entry);
  // Removes one pin. After the last pin, a key whose word is not 0 becomes an orphan, and a key whose word is 0 is
  // removed. Returns the entry of a removed key; the caller then owns it and its stripe. In all other cases returns
  // nullptr. Call it with the shard locked.
  std::unique_ptr<Entry> endPin(Shard& shard, Entry& entry);
  // Whether the table is crowded, estimated from the number of keys in the shard. Call it with the shard locked.
  bool isCrowded(const Shard& shard) const;
  // Returns a free stripe for a key of the shard, or kNone. Call it with the shard locked.
  std::uint32_t allocate(Shard& shard);
  // Moves a free stripe of another shard to this one. Returns false if none is free. Call it with no shard locked.
  bool moveFree(Shard& shard);
  // The key must have no pins, and its word must be 0.
  std::unique_ptr<Entry> remove(Shard& shard, Entry& entry);
  void addOrphan(Entry& entry);
  void removeOrphan(Entry& entry);
  void unlinkOrphan(Entry& entry);
  // Forgets the oldest orphan and frees its stripe. Returns false if there are no orphans.
  bool forgetOldest();
  // Forgets the oldest orphans beyond mostOrphans().
  void forgetTooMany();

  std::array<Shard, kShards> shards_;
  Table& table_;
  // The entry of each stripe's key. A thread that has read an entry under the key's shard may read it again without
  // locking that shard while the key is pinned.
  const Zeroed<Entry*> byStripe_;

  Entry* oldestOrphan_ = nullptr;
  Entry* newestOrphan_ = nullptr;
  Mutex orphansMutex_;
  const std::uint32_t mostOrphans_;
  std::atomic<std::uint32_t> used_{0};
  // Changed under orphansMutex_.
  std::atomic<std::uint32_t> orphans_{0};
};

}  // namespace stripelock
