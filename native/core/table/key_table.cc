#include "core/table/key_table.h"

#include <algorithm>
#include <utility>

#include "core/table/table.h"

namespace stripelock {

namespace {

// Bounds for mostOrphans(). The upper bound is enough for many dead threads, and leaves most stripes of a large table
// to living threads.
constexpr std::uint32_t kMostOrphans = 1024;
constexpr std::uint32_t kFewOrphans = 4;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// If memory were reused here, the sanitizers would miss the use of a dropped key.
constexpr std::uint32_t kMostSpares = 0;
#else
constexpr std::uint32_t kMostSpares = 16;
#endif

std::uint32_t mostOrphansOf(std::uint32_t stripes) {
  // mutant: N2-orphans-without-bound
  return std::clamp(stripes / 4, kFewOrphans, kMostOrphans);
}

}  // namespace

KeyTable::KeyTable(Table& table)
    : table_(table), byStripe_(table.stripes()), mostOrphans_(mostOrphansOf(table.stripes())) {
  // Any code that can access the shared memory can overwrite this number, so the next lines limit it.
  const auto found = static_cast<std::uint64_t>(table.cell(kLeftOrphans).exchange(0));
  // mutant: N1-left-beyond-stripes
  const std::uint64_t left = std::min<std::uint64_t>(found, table.stripes());
  // mutant: N2-left-beyond-bound
  used_.store(static_cast<std::uint32_t>(std::min<std::uint64_t>(left, mostOrphans_)));
  for (std::uint32_t stripe = 0; stripe < used_.load(); ++stripe) {
    auto entry = std::make_unique<Entry>(static_cast<std::uint64_t>(table.cell(leftHashCell(stripe)).load()));
    entry->stripe = stripe;
    table.word(stripe).store(kAbandoned);
    Shard& shard = shardFor(*entry);
    byStripe_[stripe] = &shard.entries.add(std::move(entry));
    addOrphan(*byStripe_[stripe]);
  }
}

KeyTable::~KeyTable() {
  std::uint32_t left = 0;
  for (const Entry* entry = oldestOrphan_; entry; entry = entry->newer)
    table_.cell(leftHashCell(left++)).store(static_cast<std::int64_t>(entry->key.hash()));
  table_.cell(kLeftOrphans).store(left);
}

KeyTable::Pinned KeyTable::pin(const KeyView& key, std::uint32_t idle) {
  if (idle != kNone) {
    Entry& entry = *byStripe_[idle];
    Shard& shard = shardFor(entry);
    std::unique_ptr<Entry> own;
    {
      const ShortLock lock(shard.mutex);
      if (entry.key.is(key)) return {.stripe = idle, .crowded = isCrowded(shard)};
      own = endPin(shard, entry);
    }
    if (own) return pinWith(key, std::move(own));
    // mutant: N2-given-up-without-bound
    forgetTooMany();
  }
  Shard& shard = shards_[shardOf(key)];
  for (;;) {
    {
      const ShortLock lock(shard.mutex);
      const Pinned pinned = pinLocked(shard, key);
      if (pinned.stripe != kNone) return pinned;
    }
    // These calls need the shard unlocked, because the stripe or the orphan may belong to another shard.
    // mutant: N5-refuses-beside-free
    if (!moveFree(shard) && !forgetOldest()) return {.stripe = kNone, .crowded = true};
  }
}

KeyTable::Pinned KeyTable::pinWith(const KeyView& key, std::unique_ptr<Entry> own) {
  STRIPELOCK_SEAM("pin: with a stripe of its own");
  Shard& shard = shards_[shardOf(key)];
  const ShortLock lock(shard.mutex);
  if (Entry* const known = shard.entries.find(key)) {
    // mutant: N5-loses-idle
    release(shard, std::move(own));
    return pinKnown(shard, *known, key);
  }
  own->key.assign(key);
  return add(shard, std::move(own));
}

bool KeyTable::isCrowded(const Shard& shard) const {
  const std::uint32_t half = table_.stripes() / 2;
  return used_.load() > half && shard.entries.size() * kShards > half;
}

KeyTable::Pinned KeyTable::pinLocked(Shard& shard, const KeyView& key) {
  if (Entry* const known = shard.entries.find(key)) return pinKnown(shard, *known, key);
  const std::uint32_t stripe = allocate(shard);
  if (stripe == kNone) return {.stripe = kNone};
  STRIPELOCK_SEAM("pin: before the key has its stripe");
  std::unique_ptr<Entry> entry = make(shard, key);
  entry->stripe = stripe;
  return add(shard, std::move(entry));
}

KeyTable::Pinned KeyTable::pinKnown(Shard& shard, Entry& entry, const KeyView& key) {
  // Preserves N2: a pinned key is not an orphan, so it is not forgotten.
  if (entry.orphan) removeOrphan(entry);
  if (!entry.key.isKnown()) entry.key.assign(key);
  ++entry.pins;
  return {.stripe = entry.stripe, .crowded = isCrowded(shard)};
}

KeyTable::Pinned KeyTable::add(Shard& shard, std::unique_ptr<Entry> entry) {
  const std::uint32_t stripe = entry->stripe;
  entry->pins = 1;
  byStripe_[stripe] = &shard.entries.add(std::move(entry));
  return {.stripe = stripe, .crowded = isCrowded(shard)};
}

void KeyTable::unpin(std::uint32_t stripe) {
  Entry& entry = *byStripe_[stripe];
  Shard& shard = shardFor(entry);
  {
    const ShortLock lock(shard.mutex);
    std::unique_ptr<Entry> unused = endPin(shard, entry);
    if (unused) release(shard, std::move(unused));
  }
  // mutant: N2-unpinned-without-bound
  forgetTooMany();
}

std::unique_ptr<KeyTable::Entry> KeyTable::endPin(Shard& shard, Entry& entry) {
  // mutant: N2-first-unpin
  if (--entry.pins != 0) return nullptr;
  STRIPELOCK_SEAM("unpin: before the word is read");
  // The key has no pins now, so no other thread changes the word (N3).
  // mutant: N2-frees-abandoned
  if (table_.word(entry.stripe).load() == 0) return remove(shard, entry);
  addOrphan(entry);
  return nullptr;
}

KeyTable::Shard::~Shard() {
  while (spare) delete std::exchange(spare, spare->next);
}

std::unique_ptr<KeyTable::Entry> KeyTable::make(Shard& shard, const KeyView& key) {
  if (!shard.spare) return std::make_unique<Entry>(key);
  std::unique_ptr<Entry> entry(std::exchange(shard.spare, shard.spare->next));
  --shard.spares;
  entry->key.assign(key);
  return entry;
}

void KeyTable::destroy(Shard& shard, std::unique_ptr<Entry> entry) {
  if (shard.spares >= kMostSpares || !entry->key.isInPlace()) return;
  entry->next = shard.spare;
  shard.spare = entry.release();
  ++shard.spares;
}

std::size_t KeyTable::size() {
  std::size_t size = 0;
  for (Shard& shard : shards_) {
    const ShortLock lock(shard.mutex);
    size += shard.entries.size();
  }
  return size;
}

std::uint32_t KeyTable::allocate(Shard& shard) {
  if (!shard.free.empty()) {
    const std::uint32_t stripe = shard.free.back();
    // mutant: N1-stays-free
    shard.free.pop_back();
    return stripe;
  }
  std::uint32_t stripe = used_.load();
  do {
    if (stripe == table_.stripes()) return kNone;
    STRIPELOCK_SEAM("allocate: before the count of used stripes changes");
  } while (!used_.compare_exchange_weak(stripe, stripe + 1));
  // An earlier table on this memory may have left the word abandoned. The orphans of that table now have the first
  // stripes, so the flag has no meaning here.
  table_.word(stripe).store(0);
  return stripe;
}

bool KeyTable::moveFree(Shard& shard) {
  for (Shard& other : shards_) {
    std::uint32_t stripe = kNone;
    {
      const ShortLock lock(other.mutex);
      if (other.free.empty()) continue;
      stripe = other.free.back();
      other.free.pop_back();
    }
    STRIPELOCK_SEAM("move: before the stripe is free again");
    const ShortLock lock(shard.mutex);
    shard.free.push_back(stripe);
    return true;
  }
  return false;
}

std::unique_ptr<KeyTable::Entry> KeyTable::remove(Shard& shard, Entry& entry) {
  byStripe_[entry.stripe] = nullptr;
  return shard.entries.remove(entry);
}

void KeyTable::release(Shard& shard, std::unique_ptr<Entry> entry) {
  const std::uint32_t stripe = entry->stripe;
  destroy(shard, std::move(entry));
  // This is the last step, because another key may get the stripe afterwards (preserves N1, N5).
  // mutant: N5-loses-dropped
  shard.free.push_back(stripe);
}

void KeyTable::addOrphan(Entry& entry) {
  const Lock lock(orphansMutex_);
  entry.orphan = true;
  entry.older = newestOrphan_;
  entry.newer = nullptr;
  (newestOrphan_ ? newestOrphan_->newer : oldestOrphan_) = &entry;
  newestOrphan_ = &entry;
  ++orphans_;
}

void KeyTable::removeOrphan(Entry& entry) {
  const Lock lock(orphansMutex_);
  unlinkOrphan(entry);
}

void KeyTable::unlinkOrphan(Entry& entry) {
  (entry.older ? entry.older->newer : oldestOrphan_) = entry.newer;
  (entry.newer ? entry.newer->older : newestOrphan_) = entry.older;
  entry.orphan = false;
  --orphans_;
}

void KeyTable::forgetTooMany() {
  while (orphans() > mostOrphans_ && forgetOldest()) {
  }
}

bool KeyTable::forgetOldest() {
  for (;;) {
    Shard* shard = nullptr;
    {
      const Lock lock(orphansMutex_);
      if (!oldestOrphan_) return false;
      shard = &shardFor(*oldestOrphan_);
    }
    STRIPELOCK_SEAM("forget: before the shard");
    const ShortLock lock(shard->mutex);
    Entry* entry = nullptr;
    {
      const Lock links(orphansMutex_);
      // By now another orphan may be the oldest, or the one that was found may be pinned. Orphans of the locked shard
      // cannot change.
      // mutant: N2-forgets-pinned
      if (!oldestOrphan_ || &shardFor(*oldestOrphan_) != shard) continue;
      entry = oldestOrphan_;
      unlinkOrphan(*entry);
    }
    // Preserves N3: no thread has the key pinned.
    // mutant: N3-next-key-abandoned
    table_.word(entry->stripe).store(0);
    release(*shard, remove(*shard, *entry));
    return true;
  }
}

}  // namespace stripelock
