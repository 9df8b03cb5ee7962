#include "core/leases/lease_watches.h"

#include <algorithm>

#include "core/leases/lease_table.h"

namespace stripelock {

LeaseWatches::~LeaseWatches() {
  for (std::uint32_t id = 0; id < watches_.size(); ++id) remove(id);
}

std::uint32_t LeaseWatches::add(LeaseTable& table, const KeyView& key) {
  if (freeIds_.empty()) {
    freeIds_.push_back(static_cast<std::uint32_t>(watches_.size()));
    watches_.emplace_back();
  }
  const std::uint32_t id = freeIds_.back();
  freeIds_.pop_back();
  watches_[id] = std::make_unique<LeaseWatch>(*this, table, key, id);
  table.link(*watches_[id]);
  return id;
}

bool LeaseWatches::remove(std::uint32_t id) {
  if (id >= watches_.size() || !watches_[id]) return false;
  LeaseWatch& watch = *watches_[id];
  watch.table.unlink(watch);
  // After unlink(), no thread can push the watch.
  {
    const Lock lock(readyMutex_);
    if (watch.ready) ready_.erase(std::find(ready_.begin(), ready_.end(), &watch));
    hasReady_.store(!ready_.empty());
  }
  watches_[id].reset();
  freeIds_.push_back(id);
  return true;
}

void LeaseWatches::removeAll(const LeaseTable& table) {
  for (std::uint32_t id = 0; id < watches_.size(); ++id) {
    if (watches_[id] && &watches_[id]->table == &table) remove(id);
  }
}

std::size_t LeaseWatches::take(std::uint32_t* out, std::size_t room) {
  const Lock lock(readyMutex_);
  const std::size_t count = std::min(room, ready_.size());
  for (std::size_t i = 0; i < count; ++i) {
    ready_[i]->ready = false;
    out[i] = ready_[i]->id;
  }
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(count));
  hasReady_.store(!ready_.empty());
  return count;
}

void LeaseWatches::push(LeaseWatch& watch) {
  const Lock lock(readyMutex_);
  if (watch.ready) return;
  watch.ready = true;
  ready_.push_back(&watch);
  hasReady_.store(true);
}

}  // namespace stripelock
