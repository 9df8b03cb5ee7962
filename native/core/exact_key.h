// Exact keys of hash maps, hashed once: for the shard, and for the place in its map.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/hash.h"

namespace stripelock {

// A key as it is passed around. The text is the caller's.
struct KeyView {
  explicit KeyView(std::string_view key) : text(key), hash(hashBytes(key.data(), key.size())) {}
  KeyView(std::string_view key, std::uint64_t hashed) : text(key), hash(hashed) {}
  std::string_view text;
  std::uint64_t hash;
};

// A key as a map keeps it.
struct ExactKey {
  explicit ExactKey(const KeyView& key) : text(key.text), hash(key.hash) {}
  KeyView view() const { return {text, hash}; }
  // Keeps the memory.
  void assign(const KeyView& key) {
    text.assign(key.text);
    hash = key.hash;
  }
  std::string text;
  std::uint64_t hash;
};

struct KeyHash {
  using is_transparent = void;
  std::size_t operator()(const KeyView& key) const noexcept { return static_cast<std::size_t>(key.hash); }
  std::size_t operator()(const ExactKey& key) const noexcept { return static_cast<std::size_t>(key.hash); }
};

struct KeyEqual {
  using is_transparent = void;
  bool operator()(const ExactKey& a, const ExactKey& b) const noexcept {
    return a.hash == b.hash && a.text == b.text;
  }
  bool operator()(const KeyView& a, const ExactKey& b) const noexcept {
    return a.hash == b.hash && a.text == b.text;
  }
  bool operator()(const ExactKey& a, const KeyView& b) const noexcept { return (*this)(b, a); }
};

template <typename Value>
using KeyMap = std::unordered_map<ExactKey, Value, KeyHash, KeyEqual>;

// Gives the buckets of a burst back. To be called when an entry has been erased: halving or less makes it constant
// time on the average.
template <typename Value>
void shrinkSparse(KeyMap<Value>& map) {
  if (map.bucket_count() > 256 && map.size() < map.bucket_count() / 8) map.rehash(map.size() * 2);
}

// Shards are chosen by the hash's upper half; maps use the whole modulo a number of buckets.
template <std::uint32_t count>
std::uint32_t shardOf(const KeyView& key) {
  static_assert((count & (count - 1)) == 0);
  return static_cast<std::uint32_t>(key.hash >> 32) & (count - 1);
}

}  // namespace stripelock
