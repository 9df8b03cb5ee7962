// Exact keys. One hash chooses both the shard and the place in the shard's table.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "core/base/hash.h"

namespace stripelock {

// A key as an argument, with its hash. The caller owns the text.
struct KeyView {
  explicit KeyView(std::string_view key) : text(key), hash(hashSeeded(key.data(), key.size())) {}
  KeyView(std::string_view key, std::uint64_t hashed) : text(key), hash(hashed) {}
  std::string_view text;
  std::uint64_t hash;
};

// A stored key. Short keys are stored in the object itself. This saves an allocation, and a cache miss per comparison.
class ExactKey {
 public:
  explicit ExactKey(const KeyView& key) { assign(key); }
  // A key of which only the hash is known. It matches any key with this hash until assign() sets the text.
  explicit ExactKey(std::uint64_t hash) : hash_(hash), length_(kUnknown) {}
  ExactKey(const ExactKey&) = delete;
  ExactKey& operator=(const ExactKey&) = delete;

  KeyView view() const { return {text(), hash_}; }
  std::uint64_t hash() const { return hash_; }
  bool isKnown() const { return length_ != kUnknown; }
  bool is(const KeyView& key) const { return hash_ == key.hash && (!isKnown() || text() == key.text); }
  bool isInPlace() const { return !many_; }
  void assign(const KeyView& key) {
    hash_ = key.hash;
    length_ = key.text.size();
    many_ = length_ > few_.size() ? std::make_unique<char[]>(length_) : nullptr;
    std::copy(key.text.begin(), key.text.end(), many_ ? many_.get() : few_.data());
  }

 private:
  static constexpr std::size_t kUnknown = std::numeric_limits<std::size_t>::max();

  std::string_view text() const {
    return isKnown() ? std::string_view(many_ ? many_.get() : few_.data(), length_) : std::string_view();
  }

  std::uint64_t hash_ = 0;
  std::size_t length_ = 0;
  std::unique_ptr<char[]> many_;
  std::array<char, 40> few_;
};

// The upper half of the hash chooses the shard, the lower half the place in the shard's table.
template <std::uint32_t count>
std::uint32_t shardOf(const KeyView& key) {
  static_assert((count & (count - 1)) == 0);
  return static_cast<std::uint32_t>(key.hash >> 32) & (count - 1);
}

}  // namespace stripelock
