#include "core/name_table.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/table.h"

namespace stripelock {

namespace {

// Enough for the keys of many threads that died at work, few enough to leave most stripes to the living.
constexpr std::uint32_t kMostOrphans = 1024;

}  // namespace

void NameTable::Freed::operator()(Name** names) const { std::free(names); }

NameTable::NameTable(Table& table)
    : table_(table),
      // calloc takes large blocks as untouched zero pages.
      byStripe_(static_cast<Name**>(std::calloc(table.stripes(), sizeof(Name*)))),
      mostOrphans_(std::min(kMostOrphans, table.stripes() / 4)) {
  // As operator new does with exceptions disabled.
  if (!byStripe_) std::abort();
}

std::uint32_t NameTable::pin(const KeyView& key) {
  Shard& shard = shards_[shardOf<kShards>(key)];
  do {
    const Lock lock(shard.mutex);
    Name* name = shard.names.find(key);
    if (name) {
      // Keeps N2: it is no orphan any more, so nobody forgets it.
      if (name->orphan) removeOrphan(*name);
      ++name->pins;
      return name->stripe;
    }
    const std::uint32_t stripe = allocate();
    if (stripe == kNone) continue;
    STRIPELOCK_SEAM("pin: before the key has its stripe");
    std::unique_ptr<Name> node = std::move(shard.spare);
    if (node) {
      node->key.assign(key);
    } else {
      node = std::make_unique<Name>(key);
    }
    node->stripe = stripe;
    node->pins = 1;
    byStripe_[stripe] = &shard.names.add(std::move(node));
    size_.fetch_add(1);
    return stripe;
    // Without the shard: the orphan may be of another one.
  } while (forgetOldest());
  return kNone;
}

void NameTable::unpin(std::uint32_t stripe) {
  Name& name = *byStripe_[stripe];
  Shard& shard = shardFor(name);
  {
    const Lock lock(shard.mutex);
    if (--name.pins != 0) return;
    STRIPELOCK_SEAM("unpin: before the word is read");
    // By N3 nobody else changes the word from here on.
    if (table_.word(stripe).load() == 0) {
      drop(shard, name);
      return;
    }
    addOrphan(name);
  }
  while (orphans() > mostOrphans_ && forgetOldest()) {
  }
}

bool NameTable::isCrowded() const { return size_.load() > table_.stripes() - table_.stripes() / 4; }

std::uint32_t NameTable::orphans() {
  const Lock lock(freeMutex_);
  return orphans_;
}

std::uint32_t NameTable::allocate() {
  const Lock lock(freeMutex_);
  if (!free_.empty()) {
    const std::uint32_t stripe = free_.back();
    free_.pop_back();
    return stripe;
  }
  const std::uint32_t stripe = used_.load();
  if (stripe == table_.stripes()) return kNone;
  // An earlier table on this memory, whose last thread has left, may have left it abandoned.
  table_.word(stripe).store(0);
  used_.store(stripe + 1);
  return stripe;
}

void NameTable::drop(Shard& shard, Name& name) {
  const std::uint32_t stripe = name.stripe;
  byStripe_[stripe] = nullptr;
  std::unique_ptr<Name> gone = shard.names.remove(name);
  if (!shard.spare && gone->key.isInPlace()) shard.spare = std::move(gone);
  size_.fetch_sub(1);
  STRIPELOCK_SEAM("drop: before the stripe is free");
  // Last (keeps N1): from here on another key may get it.
  const Lock lock(freeMutex_);
  free_.push_back(stripe);
}

void NameTable::addOrphan(Name& name) {
  const Lock lock(freeMutex_);
  name.orphan = true;
  name.older = newestOrphan_;
  name.newer = nullptr;
  (newestOrphan_ ? newestOrphan_->newer : oldestOrphan_) = &name;
  newestOrphan_ = &name;
  ++orphans_;
}

void NameTable::removeOrphan(Name& name) {
  const Lock lock(freeMutex_);
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
      const Lock lock(freeMutex_);
      if (!oldestOrphan_) return false;
      shard = &shardFor(*oldestOrphan_);
    }
    STRIPELOCK_SEAM("forget: before the shard");
    const Lock lock(shard->mutex);
    Name* name = nullptr;
    {
      const Lock orphans(freeMutex_);
      // The oldest may be another one by now, or be pinned. Only one of the locked shard stays an orphan meanwhile.
      if (!oldestOrphan_ || &shardFor(*oldestOrphan_) != shard) continue;
      name = oldestOrphan_;
      unlinkOrphan(*name);
    }
    // Keeps N3: nobody has it pinned.
    table_.word(name->stripe).store(0);
    drop(*shard, *name);
    return true;
  }
}

}  // namespace stripelock
