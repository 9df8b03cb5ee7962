// Gives each key in use a stripe of its own, so that a table of stripes is a table of exact keys.
//
// A thread pins a key before it touches the key's stripe, and may keep it pinned while it does not use it: then it finds
// the stripe without a call. Each thread pins a key once; key_pins.h sees to that.
//
// Invariants, for each stripe, whenever the shard of its key is not locked:
//   N1  No two keys have the same stripe at one time, and no key has two.
//   N2  A key keeps its stripe while a thread has it pinned, and while the stripe's word is not 0. (Then, if nobody has it
//       pinned, the word is abandoned: the next holder is to be told. Such keys are orphans. The oldest of more than
//       mostOrphans() are forgotten, and so are all that are in the way of a key that needs a stripe. When the last thread
//       leaves the table, its orphans stay in the shared memory, by their hashes, and the next table on it has them again.)
//   N3  A thread touches a word, or links a waiter, only while it has the key pinned. So nobody else changes a word
//       whose key has no pins, and a stripe that is given to another key is free and has no queue.
//   N4  A thread unpins a key only when it neither holds it nor waits for it, and not between looking it up and taking it.
//       The second half is kept by whoever looks up (lib/lock/pinned-keys.ts), also in the addon's own calls.
//   N5  A stripe is either free (in the list of one shard, or from used_ on), or of one key of any shard; or a call that is
//       under way has it, which gives it to a key or makes it free.
//
// A thread that ends abandons what it holds, and then unpins everything (Registry::end). It may end between any two of
// its calls here, never within one: each call changes the table under the key's shard, and leaves N1 – N5 true. What it
// had looked up and not taken yet it had pinned, which unpinAll() ends.
//
// The free stripes of a shard are for its own keys first, so that a key that comes and goes needs one lock. A shard that has
// none takes one from another; so a key is refused only if no shard had any.
//
// Lock order: the shard of a key, then the shard of its stripe (inspection only) or orphansMutex_. Never two shards of keys.

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

  // Takes over what the last table on this memory has left.
  explicit KeyTable(Table& table);
  // Leaves the orphans in the memory. It has only room for their hashes; that another key has one of these is as good as
  // impossible, and would only tell that key of a death.
  ~KeyTable();
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  struct Pinned {
    // kNone: all stripes have other keys.
    std::uint32_t stripe;
    // More than half of the stripes have keys, so the thread should keep pinned only what it uses. Then the threads
    // together remember no more idle keys than that, and a few each: the rest is for keys in use.
    bool crowded = false;
  };
  // The stripe of the key, with one more pin. `idle`: one pin fewer for this stripe, of which the caller has one. A new key
  // gets it at once if nobody else needs it, which costs half as much as to free it and to look for a free one.
  Pinned pin(const KeyView& key, std::uint32_t idle = kNone);
  // One pin fewer. The caller has one.
  void unpin(std::uint32_t stripe);
  static std::uint32_t shardOf(const KeyView& key) { return stripelock::shardOf<kShards>(key); }

  // Keys that have a stripe.
  std::size_t size();
  // No stripe from here on was ever in use.
  std::uint32_t used() const { return used_.load(); }
  // How many abandoned keys that nobody has pinned are kept.
  std::uint32_t mostOrphans() const { return mostOrphans_; }
  std::uint32_t orphans() const { return orphans_.load(); }

  // Calls visit(stripe) if the key has one, with its shard locked, so that the key keeps it meanwhile.
  template <typename Visit>
  void find(const KeyView& key, Visit visit) {
    Shard& shard = shards_[shardOf(key)];
    const ShortLock lock(shard.mutex);
    if (const Entry* const entry = shard.entries.find(key)) visit(entry->stripe);
  }
  // Calls visit(key, stripe) for each key, with its shard locked, so that the key keeps its stripe meanwhile.
  template <typename Visit>
  void forEach(Visit visit) {
    for (Shard& shard : shards_) {
      const ShortLock lock(shard.mutex);
      shard.entries.forEach([&](Entry& entry) { visit(entry.key.view().text, entry.stripe); });
    }
  }

 private:
  // Everything is guarded by the key's shard, but for the links, which orphansMutex_ guards.
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
    // Memory of keys that were dropped, for the next ones. Linked by KeyNode::next.
    Entry* spare = nullptr;
    std::uint32_t spares = 0;
    ~Shard();
  };
  struct Freed {
    void operator()(Entry** entries) const;
  };

  static std::unique_ptr<Entry> make(Shard& shard, const KeyView& key);
  static void destroy(Shard& shard, std::unique_ptr<Entry> entry);
  // Makes the stripe of an entry that no key has any more a free one of the shard, which is locked.
  static void release(Shard& shard, std::unique_ptr<Entry> entry);
  Shard& shardFor(const Entry& entry) { return shards_[shardOf(entry.key.view())]; }
  // `own`: with its stripe, which belongs to nobody but the caller. A new key gets both, else the stripe becomes free.
  Pinned pinWith(const KeyView& key, std::unique_ptr<Entry> own);
  // These three: the shard is locked.
  Pinned pinLocked(Shard& shard, const KeyView& key);
  Pinned pinKnown(Shard& shard, Entry& entry, const KeyView& key);
  Pinned add(Shard& shard, std::unique_ptr<Entry> entry);
  // One pin fewer. If it was the last, and nobody is to be told of a death: the entry, with its stripe, which belongs to nobody
  // but the caller from then on. The shard is locked.
  std::unique_ptr<Entry> endPin(Shard& shard, Entry& entry);
  // An estimate, from the keys of the shard, which is locked.
  bool isCrowded(const Shard& shard) const;
  // A stripe for a key of the shard, which is locked; or kNone.
  std::uint32_t allocate(Shard& shard);
  // Gives the shard a free stripe of another one. The caller has no shard locked. False: there is none.
  bool moveFree(Shard& shard);
  // The key has no pins, and its word is 0.
  std::unique_ptr<Entry> remove(Shard& shard, Entry& entry);
  void addOrphan(Entry& entry);
  void removeOrphan(Entry& entry);
  void unlinkOrphan(Entry& entry);
  // Forgets the oldest orphan and frees its stripe. False: there is none.
  bool forgetOldest();
  // Forgets the oldest of too many.
  void forgetTooMany();

  std::array<Shard, kShards> shards_;
  Table& table_;
  // Who has read the entry of a stripe under the shard of its key may read it again while the key is pinned.
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
