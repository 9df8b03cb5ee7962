// Maps each key in use to a separate stripe, so that a table of stripes becomes a table of exact keys.
//
// A thread pins a key before it accesses the key's stripe: a pinned key keeps its stripe. The thread may keep an unused
// key pinned, so that it can use the stripe later without another call. Each thread pins a key once (key_pins.h).
//
// Invariants, for each stripe, whenever the shard of its key is not locked:
//   N1  At any time a key has at most one stripe, and a stripe at most one key.
//   N2  A key keeps its stripe while a thread has the key pinned, and while the stripe's word is not 0. If a key has no
//       pins, but the word of its stripe is not 0, the key is an orphan: the word is abandoned, and the key's next
//       holder sees that. Above mostOrphans() orphans, the oldest ones are forgotten. The oldest orphan is also
//       forgotten if another key needs a stripe and no stripe is free. When the last thread leaves the table, the
//       hashes of the orphans stay in the shared memory, and the next table on that memory restores the orphans.
//   N3  A thread accesses a stripe's word, or links a waiter, only while it has the stripe's key pinned. So if a key
//       has no pins, no other thread changes the stripe's word. A stripe that is given to another key is free and has
//       no queue.
//   N4  A thread unpins a key only when it neither holds the key nor waits for it, and never between looking up the key
//       and acquiring it. lib/lock/pinned-keys.ts ensures the second part, even while an acquisition is inside a call
//       of the addon.
//   N5  A stripe is in one of three states: free (in the list of one shard, or at index used_ or above), assigned to
//       one key of any shard, or owned by a running call, which will assign it to a key or free it.
//
// A thread that ends abandons its holds and then unpins its keys (Registry::end). It may end between two calls of this
// class, but not within a call. Each call changes the table with the key's shard locked, and leaves N1 – N5 true. If
// the thread had looked up a key without acquiring it, unpinAll() ends that pin.
//
// Each shard gives its free stripes to its own keys first, so adding and removing a key locks only one shard. A shard
// without free stripes takes one from another shard. So a new key gets a stripe if any shard has a free one.
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
  // Leaves the orphans in the memory, which has room only for their hashes. Another key with the same hash would see a
  // wrong `abandoned`, but such a key is extremely unlikely.
  ~KeyTable();
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  struct Pinned {
    // kNone if all stripes belong to other keys.
    std::uint32_t stripe;
    // True if more than half of the stripes have keys. The thread should then keep only used keys pinned, so that the
    // idle keys of all threads occupy at most half of the stripes, plus a few for each thread.
    bool crowded = false;
  };
  // Pins the key and returns its stripe. `idle`: kNone, or a stripe whose pin the caller no longer needs; that pin
  // ends, unless `key` is the key of `idle`. If `idle` then has no other pins and its word is 0, and `key` has no
  // stripe yet, `key` gets this stripe. This costs half as much as freeing one stripe and finding another. If `idle`
  // has no other pins but its word is not 0, its key becomes an orphan, which keeps the stripe (N2).
  Pinned pin(const KeyView& key, std::uint32_t idle = kNone);
  // Removes one of the caller's pins.
  void unpin(std::uint32_t stripe);
  static std::uint32_t shardOf(const KeyView& key) { return stripelock::shardOf<kShards>(key); }

  // The number of keys that have a stripe.
  std::size_t size();
  // Stripes at this index and above were never used.
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
  // Pins the key. `own`: an entry of no key, and its stripe, which only the caller can reach. A new key gets this entry
  // and stripe. If the key already has a stripe, they are freed.
  Pinned pinWith(const KeyView& key, std::unique_ptr<Entry> own);
  // Call these three with the shard locked.
  Pinned pinLocked(Shard& shard, const KeyView& key);
  Pinned pinKnown(Shard& shard, Entry& entry, const KeyView& key);
  Pinned add(Shard& shard, std::unique_ptr<Entry> entry);
  // Removes one pin. After the last pin, a key whose word is not 0 becomes an orphan, and a key whose word is 0 is
  // removed. If the key was removed, returns its entry; the caller then owns the entry and the stripe. Otherwise
  // returns nullptr. Call it with the shard locked.
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
  // The entry of each stripe's key. While a thread has a key pinned, it may read the key's entry without locking the
  // key's shard.
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
