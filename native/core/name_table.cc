#include "core/name_table.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/table.h"

namespace stripelock {

namespace {

// Enough for the keys of many threads that died at work, few enough to leave most stripes of a large table to the living.
constexpr std::uint32_t kMostOrphans = 1024;
constexpr std::uint32_t kFewOrphans = 4;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// With spare memory the sanitizers would not see the use of a dropped key.
constexpr std::uint32_t kMostSpares = 0;
#else
constexpr std::uint32_t kMostSpares = 16;
#endif

}  // namespace

void NameTable::Freed::operator()(Name** names) const { std::free(names); }

NameTable::NameTable(Table& table)
    : table_(table),
      // calloc takes large blocks as untouched zero pages.
      byStripe_(static_cast<Name**>(std::calloc(table.stripes(), sizeof(void*)))),
      mostOrphans_(std::clamp(table.stripes() / 4, kFewOrphans, kMostOrphans)) {
  // As operator new does with exceptions disabled.
  if (!byStripe_) std::abort();
  // Anybody who has a handle can write to this number.
  const auto left = static_cast<std::uint64_t>(table.cell(kLeftOrphans).exchange(0));
  used_.store(
      static_cast<std::uint32_t>(std::min<std::uint64_t>(left, std::min(mostOrphans_, table.stripes()))));
  for (std::uint32_t stripe = 0; stripe < used_.load(); ++stripe) {
    auto name = std::make_unique<Name>(static_cast<std::uint64_t>(table.cell(leftHashCell(stripe)).load()));
    name->stripe = stripe;
    table.word(stripe).store(kAbandoned);
    Shard& shard = shardFor(*name);
    byStripe_[stripe] = &shard.names.add(std::move(name));
    addOrphan(*byStripe_[stripe]);
  }
}

NameTable::~NameTable() {
  std::uint32_t left = 0;
  for (const Name* name = oldestOrphan_; name; name = name->newer)
    table_.cell(leftHashCell(left++)).store(static_cast<std::int64_t>(name->key.hash()));
  table_.cell(kLeftOrphans).store(left);
}

NameTable::Pinned NameTable::pin(const KeyView& key, std::uint32_t idle) {
  Shard& shard = shards_[shardOf(key)];
  for (;;) {
    {
      const Lock lock(shard.mutex);
      const Pinned pinned = pinLocked(shard, key, idle);
      if (pinned.stripe != kNone) return pinned;
    }
    // Without the shard: stripes and orphans may be of another one.
    // mutant: N5-refuses-beside-free
    if (!moveFree(shard) && !forgetOldest()) return {.stripe = kNone, .crowded = true};
  }
}

bool NameTable::isCrowded(const Shard& shard) const {
  const std::uint32_t half = table_.stripes() / 2;
  return used_.load() > half && shard.names.size() * kShards > half;
}

NameTable::Pinned NameTable::pinLocked(Shard& shard, const KeyView& key, std::uint32_t idle) {
  if (Name* const name = shard.names.find(key)) {
    // Keeps N2: it is no orphan any more, so nobody forgets it.
    if (name->orphan) removeOrphan(*name);
    if (!name->key.isKnown()) name->key.assign(key);
    ++name->pins;
    return {.stripe = name->stripe, .crowded = isCrowded(shard)};
  }
  if (idle != kNone && reuse(shard, key, idle)) return {.stripe = idle, .reused = true};
  const std::uint32_t stripe = allocate(shard);
  if (stripe == kNone) return {.stripe = kNone};
  STRIPELOCK_SEAM("pin: before the key has its stripe");
  std::unique_ptr<Name> node = make(shard, key);
  node->stripe = stripe;
  node->pins = 1;
  byStripe_[stripe] = &shard.names.add(std::move(node));
  return {.stripe = stripe, .crowded = isCrowded(shard)};
}

bool NameTable::reuse(Shard& shard, const KeyView& key, std::uint32_t idle) {
  Name& name = *byStripe_[idle];
  // With the caller's pin alone nobody else changes the word (N3), or waits. An abandoned key keeps its stripe (N2).
  if (name.pins != 1 || table_.word(idle).load() != 0) return false;
  shard.names.rename(name, key);
  return true;
}

std::uint32_t NameTable::unpin(std::uint32_t stripe) {
  Name& name = *byStripe_[stripe];
  const std::uint32_t number = shardOf(name.key.view());
  Shard& shard = shards_[number];
  {
    const Lock lock(shard.mutex);
    // mutant: N2-first-unpin
    if (--name.pins != 0) return number;
    STRIPELOCK_SEAM("unpin: before the word is read");
    // By N3 nobody else changes the word from here on.
    // mutant: N2-frees-abandoned
    if (table_.word(stripe).load() == 0) {
      drop(shard, name);
      return number;
    }
    addOrphan(name);
  }
  while (orphans() > mostOrphans_ && forgetOldest()) {
  }
  return number;
}

NameTable::Shard::~Shard() {
  while (spare) delete std::exchange(spare, spare->next);
}

std::unique_ptr<NameTable::Name> NameTable::make(Shard& shard, const KeyView& key) {
  if (!shard.spare) return std::make_unique<Name>(key);
  std::unique_ptr<Name> name(std::exchange(shard.spare, shard.spare->next));
  --shard.spares;
  name->key.assign(key);
  return name;
}

void NameTable::destroy(Shard& shard, std::unique_ptr<Name> name) {
  if (shard.spares >= kMostSpares || !name->key.isInPlace()) return;
  name->next = shard.spare;
  shard.spare = name.release();
  ++shard.spares;
}

std::size_t NameTable::size() {
  std::size_t size = 0;
  for (Shard& shard : shards_) {
    const Lock lock(shard.mutex);
    size += shard.names.size();
  }
  return size;
}

std::uint32_t NameTable::orphans() {
  const Lock lock(orphansMutex_);
  return orphans_;
}

std::uint32_t NameTable::allocate(Shard& shard) {
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
  // An earlier table on this memory may have left it abandoned: its orphans are on the first stripes now.
  table_.word(stripe).store(0);
  return stripe;
}

bool NameTable::moveFree(Shard& shard) {
  for (Shard& other : shards_) {
    std::uint32_t stripe = kNone;
    {
      const Lock lock(other.mutex);
      if (other.free.empty()) continue;
      stripe = other.free.back();
      other.free.pop_back();
    }
    STRIPELOCK_SEAM("move: before the stripe is free again");
    const Lock lock(shard.mutex);
    shard.free.push_back(stripe);
    return true;
  }
  return false;
}

void NameTable::drop(Shard& shard, Name& name) {
  const std::uint32_t stripe = name.stripe;
  byStripe_[stripe] = nullptr;
  destroy(shard, shard.names.remove(name));
  // Under the lock that the key had (keeps N1, N5): from here on another key may get it.
  // mutant: N5-loses-dropped
  shard.free.push_back(stripe);
}

void NameTable::addOrphan(Name& name) {
  const Lock lock(orphansMutex_);
  name.orphan = true;
  name.older = newestOrphan_;
  name.newer = nullptr;
  (newestOrphan_ ? newestOrphan_->newer : oldestOrphan_) = &name;
  newestOrphan_ = &name;
  ++orphans_;
}

void NameTable::removeOrphan(Name& name) {
  const Lock lock(orphansMutex_);
  unlinkOrphan(name);
}

void NameTable::unlinkOrphan(Name& name) {
  (name.older ? name.older->newer : oldestOrphan_) = name.newer;
  (name.newer ? name.newer->older : newestOrphan_) = name.older;
  name.orphan = false;
  --orphans_;
}

bool NameTable::forgetOldest() {
  for (;;) {
    Shard* shard = nullptr;
    {
      const Lock lock(orphansMutex_);
      if (!oldestOrphan_) return false;
      shard = &shardFor(*oldestOrphan_);
    }
    STRIPELOCK_SEAM("forget: before the shard");
    const Lock lock(shard->mutex);
    Name* name = nullptr;
    {
      const Lock links(orphansMutex_);
      // The oldest may be another one by now, or be pinned. Only one of the locked shard stays an orphan meanwhile.
      // mutant: N2-forgets-pinned
      if (!oldestOrphan_ || &shardFor(*oldestOrphan_) != shard) continue;
      name = oldestOrphan_;
      unlinkOrphan(*name);
    }
    // Keeps N3: nobody has it pinned.
    // mutant: N3-tells-next-key
    table_.word(name->stripe).store(0);
    drop(*shard, *name);
    return true;
  }
}

}  // namespace stripelock
