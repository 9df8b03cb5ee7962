// Maps each key in use to a separate stripe, so that a table of stripes becomes a table of exact keys.
//
// A thread pins a key before it touches the key's stripe. It may keep an unused key pinned, to find the stripe later
// without a call. Each thread pins a key once; key_pins.h ensures that.
//
// Invariants, for each stripe, whenever the shard of its key is not locked:
//   N1  At any time a key has at most one stripe, and a stripe at most one key.
//   N2  A key keeps its stripe while a thread has it pinned, and while the stripe's word is not 0. A key without pins whose
//       word is not 0 is an orphan: its word is abandoned, and its next holder sees that. If there are more than
//       mostOrphans(), the oldest are forgotten. Orphans are also forgotten if a key needs their stripe. When the last thread
//       leaves the table, its orphans stay in the shared memory, as hashes, and the next table on that memory restores them.
//   N3  A thread touches a word, or links a waiter, only while it has the key pinned. So if a key has no pins, no other
//       thread changes its word, and a stripe that is given to another key is free and has no queue.
//   N4  A thread unpins a key only when it neither holds it nor waits for it, and not between looking it up and taking it.
//       The code that looks keys up ensures the second half (lib/lock/pinned-keys.ts), also within the addon's own calls.
//   N5  A stripe is free (in the list of one shard, or at used_ and above), or belongs to one key of any shard, or to a
//       running call, which will give it to a key or free it.
//
// A thread that ends abandons its holds, and then unpins everything (Registry::end). It may end between two calls here,
// but not within one: each call changes the table under the key's shard, and leaves N1 – N5 true. A key that the thread
// had looked up but not taken is pinned, and unpinAll() ends that pin.
//
// A shard's free stripes go to its own keys first, so a key that comes and goes needs one lock. If a shard has none, it
// takes one from another shard. So a key is refused only if no shard has a free stripe.
//
// Lock order: the shard of a key, then the shard of its stripe (inspection only) or orphansMutex_. Never the shards of
// two keys.

#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/key_map.h"
#include "core/short_mutex.h"
#include "core/sync.h"

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
    // More than half of the stripes have keys, so the thread should keep pinned only the keys it uses. The threads
    // together then remember at most that many idle keys, and a few each; the rest is for keys in use.
    bool crowded = false;
  };
  // Pins the key and returns its stripe. `idle`: a stripe that the caller has pinned, and that loses this pin. A new
  // key gets that stripe at once if it is free then, which costs half as much as freeing it and finding another.
  Pinned pin(const KeyView& key, std::uint32_t idle = kNone);
  // Removes one pin. The caller has one.
  void unpin(std::uint32_t stripe);
  static std::uint32_t shardOf(const KeyView& key) { return stripelock::shardOf<kShards>(key); }

  // Keys that have a stripe.
  std::size_t size();
  // Stripes from this one on were never used.
  std::uint32_t used() const { return used_.load(); }
  // The number of abandoned keys without pins that are kept.
  std::uint32_t mostOrphans() const { return mostOrphans_; }
  std::uint32_t orphans() const { return orphans_.load(); }

  // Calls visit(stripe) if the key has a stripe, with the key's shard locked, so that the key keeps it during the call.
  template <typename Visit>
  void find(const KeyView& key, Visit visit) {
    Shard& shard = shards_[shardOf(key)];
    const ShortLock lock(shard.mutex);
    if (const Entry* const entry = shard.entries.find(key)) visit(entry->stripe);
  }
  // Calls visit(key, stripe) for each key, with its shard locked, so that the key keeps its stripe during the call.
  template <typename Visit>
  void forEach(Visit visit) {
    for (Shard& shard : shards_) {
      const ShortLock lock(shard.mutex);
      shard.entries.forEach([&](Entry& entry) { visit(entry.key.view().text, entry.stripe); });
    }
  }

 private:
  // The key's shard guards everything except the links, which orphansMutex_ guards.
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
    // The memory of dropped keys, for new ones. Linked by KeyNode::next.
    Entry* spare = nullptr;
    std::uint32_t spares = 0;
    ~Shard();
  };
  struct Freed {
    void operator()(Entry** entries) const;
  };

  static std::unique_ptr<Entry> make(Shard& shard, const KeyView& key);
  static void destroy(Shard& shard, std::unique_ptr<Entry> entry);
  // Adds the stripe of a removed entry to the shard's free ones. The shard is locked.
  static void release(Shard& shard, std::unique_ptr<Entry> entry);
  Shard& shardFor(const Entry& entry) { return shards_[shardOf(entry.key.view())]; }
  // `own`: an entry with its stripe, both owned by the caller. A new key gets both; otherwise the stripe is freed.
  Pinned pinWith(const KeyView& key, std::unique_ptr<Entry> own);
  // For these three, the shard is locked.
  Pinned pinLocked(Shard& shard, const KeyView& key);
  Pinned pinKnown(Shard& shard, Entry& entry, const KeyView& key);
  Pinned add(Shard& shard, std::unique_ptr<Entry> entry);
  // Removes one pin. If it was the last, and the word is not abandoned, returns the entry with its stripe, which the
  // caller then owns. The shard is locked.
  std::unique_ptr<Entry> endPin(Shard& shard, Entry& entry);
  // An estimate from the number of keys in the shard, which is locked.
  bool isCrowded(const Shard& shard) const;
  // Returns a stripe for a key of the shard, which is locked; or kNone.
  std::uint32_t allocate(Shard& shard);
  // Moves a free stripe of another shard to this one. The caller has no shard locked. Returns false if none is free.
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
  // A thread that has read a stripe's entry under the shard of its key may read it again while the key is pinned.
  std::unique_ptr<Entry*[], Freed> byStripe_;

  Entry* oldestOrphan_ = nullptr;
  Entry* newestOrphan_ = nullptr;
  Mutex orphansMutex_;
  const std::uint32_t mostOrphans_;
  std::atomic<std::uint32_t> used_{0};
  // Changed under orphansMutex_.
  std::atomic<std::uint32_t> orphans_{0};
};

}  // namespace stripelock
