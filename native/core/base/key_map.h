// A hash table of nodes by exact key. Every operation is short, however many nodes there are. The table grows and
// shrinks by single buckets (linear hashing; Litwin, 1980); doubling would move all nodes at once. With
// std::unordered_map, the slowest insertion took 1.1 ms while the maps of 128 shards grew to a million leases in total,
// and 13 ms with eight million leases.
//
// The buckets are in segments. Each segment is as large as all earlier segments together. To grow, the table only adds
// a cleared segment, so buckets never move.

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/exact_key.h"

namespace stripelock {

// The base of every node.
template <typename Node>
struct KeyNode {
  explicit KeyNode(const KeyView& name) : key(name) {}
  explicit KeyNode(std::uint64_t hash) : key(hash) {}
  ExactKey key;
  // Used only by the map.
  Node* next = nullptr;
};

// Node derives from KeyNode<Node>.
template <typename Node>
class KeyMap {
 public:
  KeyMap() = default;
  KeyMap(const KeyMap&) = delete;
  KeyMap& operator=(const KeyMap&) = delete;
  ~KeyMap() {
    for (std::size_t i = 0; i < buckets_; ++i) {
      for (Node* node = bucket(i); node;) delete std::exchange(node, node->next);
    }
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  // Calls `visit` for each node, in no particular order. `visit` must not change the table.
  template <typename Visit>
  void forEach(Visit visit) {
    for (std::size_t i = 0; i < buckets_; ++i) {
      for (Node* node = bucket(i); node; node = node->next) visit(*node);
    }
  }

  // Returns nullptr if the key is not in the table.
  Node* find(const KeyView& key) {
    Node* node = bucketOf(key.hash);
    while (node && !node->key.is(key)) node = node->next;
    return node;
  }

  // The table must not have the node's key yet.
  Node& add(std::unique_ptr<Node> node) {
    if (++size_ > buckets_) split();
    return link(*node.release());
  }

  std::unique_ptr<Node> remove(Node& node) {
    unlink(node);
    --size_;
    // Up to four merges per removal, so that a table that becomes empty has removed all added buckets.
    for (int i = 0; i < 4 && buckets_ > kFirst && size_ < buckets_ / 4; ++i) merge();
    return std::unique_ptr<Node>(&node);
  }

 private:
  static constexpr std::size_t kFirst = 8;

  Node*& bucket(std::size_t index) {
    if (index < kFirst) return few_[index];
    const int segment = std::bit_width(index) - std::bit_width(kFirst);
    return segments_[static_cast<std::size_t>(segment)][index - std::bit_floor(index)];
  }
  Node*& bucketOf(std::uint64_t hash) {
    const std::size_t index = static_cast<std::size_t>(hash) & mask_;
    return bucket(index < buckets_ ? index : index & (mask_ >> 1));
  }

  Node& link(Node& node) {
    Node*& first = bucketOf(node.key.hash());
    node.next = first;
    return *(first = &node);
  }
  void unlink(Node& node) {
    Node** link = &bucketOf(node.key.hash());
    while (*link != &node) link = &(*link)->next;
    *link = node.next;
  }

  // Adds a bucket. Moves the nodes that now belong there from the one bucket that has contained them so far.
  void split() {
    const std::size_t added = buckets_++;
    if (added > mask_) {
      mask_ = 2 * mask_ + 1;
      segments_.push_back(std::make_unique<Node*[]>(added));
    }
    Node** link = &bucket(added & (mask_ >> 1));
    Node** end = &bucket(added);
    while (Node* const node = *link) {
      if ((static_cast<std::size_t>(node->key.hash()) & mask_) == added) {
        *link = node->next;
        *end = node;
        end = &node->next;
      } else {
        link = &node->next;
      }
    }
    *end = nullptr;
  }

  // The opposite of split().
  void merge() {
    const std::size_t removed = --buckets_;
    Node** end = &bucket(removed & (mask_ >> 1));
    while (*end) end = &(*end)->next;
    *end = bucket(removed);
    if (removed == (mask_ >> 1) + 1) {
      mask_ >>= 1;
      segments_.pop_back();
    }
  }

  std::size_t size_ = 0;
  // The number of buckets, between mask_ / 2 + 1 and mask_ + 1.
  std::size_t buckets_ = kFirst;
  std::size_t mask_ = kFirst - 1;
  std::array<Node*, kFirst> few_{};
  std::vector<std::unique_ptr<Node*[]>> segments_;
};

}  // namespace stripelock
