// A binary min-heap whose entries store their place in the heap, so any entry can be removed or moved.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace stripelock {

// Entry must have a member `std::uint32_t place`, which only the heap uses while the entry is in the heap. The heap
// stores the ranks itself, so it accesses an entry only for this member.
template <typename Rank, typename Entry>
class IndexedHeap {
 public:
  bool empty() const { return items_.empty(); }
  Entry& least() const { return *items_.front().entry; }
  Rank leastRank() const { return items_.front().rank; }
  Rank rankOf(const Entry& entry) const { return items_[entry.place].rank; }

  void add(Entry& entry, Rank rank) {
    items_.push_back({rank, &entry});
    rise(items_.size() - 1);
  }

  void remove(Entry& entry) {
    const std::size_t place = entry.place;
    const Item last = items_.back();
    items_.pop_back();
    if (last.entry != &entry) {
      items_[place] = last;
      settle(place);
    }
    // Frees memory after a burst. Halving takes amortized constant time.
    if (items_.capacity() > kKept && items_.size() < items_.capacity() / 4) {
      std::vector<Item> fewer;
      fewer.reserve(items_.capacity() / 2);
      fewer.assign(items_.begin(), items_.end());
      items_ = std::move(fewer);
    }
  }

  void move(Entry& entry, Rank rank) {
    items_[entry.place].rank = rank;
    settle(entry.place);
  }

 private:
  struct Item {
    Rank rank;
    Entry* entry;
  };
  static constexpr std::size_t kKept = 64;

  void put(std::size_t place, const Item& item) {
    items_[place] = item;
    item.entry->place = static_cast<std::uint32_t>(place);
  }

  void settle(std::size_t place) {
    if (place > 0 && items_[place].rank < items_[(place - 1) / 2].rank) {
      rise(place);
    } else {
      sink(place);
    }
  }

  void rise(std::size_t place) {
    const Item item = items_[place];
    while (place > 0) {
      const std::size_t above = (place - 1) / 2;
      if (!(item.rank < items_[above].rank)) break;
      put(place, items_[above]);
      place = above;
    }
    put(place, item);
  }

  void sink(std::size_t place) {
    const Item item = items_[place];
    for (std::size_t below = 2 * place + 1; below < items_.size(); below = 2 * place + 1) {
      if (below + 1 < items_.size() && items_[below + 1].rank < items_[below].rank) ++below;
      if (!(items_[below].rank < item.rank)) break;
      put(place, items_[below]);
      place = below;
    }
    put(place, item);
  }

  std::vector<Item> items_;
};

}  // namespace stripelock
