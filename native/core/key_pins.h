// What one thread has pinned of a table of exact keys (key_table.h): each key once, however often it looks the key up.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/key_table.h"

namespace stripelock {

class Membership;

// Everything is called by the thread itself. It may end between any two calls: what it has pinned is in the bits below, and
// unpinAll() ends these pins.
class KeyPins {
 public:
  struct Pinned {
    // KeyTable::kNone: all stripes have other keys.
    std::uint32_t stripe;
    // This thread had pinned the key before.
    bool again = false;
    // See KeyTable::Pinned.
    bool crowded = false;
    // `idle` is not pinned any more, unless it is the key's. Also if all stripes have other keys.
    bool ended = false;
  };

  // The membership's table has exact keys, and the membership outlives this.
  explicit KeyPins(const Membership& membership);

  // `idle`: a stripe to unpin, and to give to the key if that needs one; or kNone. It stays pinned if this thread uses it, or
  // is blocked.
  Pinned pin(const KeyView& key, std::uint32_t idle = KeyTable::kNone, bool blocked = false);
  // Unpins the stripes that this thread has pinned and does not use(). Those that it uses come to the front, or all that it
  // has pinned if it is blocked. Returns how many these are. No more than it has pinned, however often each is in the list.
  std::size_t unpin(std::int32_t* stripes, std::size_t count, bool blocked = false);
  // The thread ends, or closes the table. Call it after Membership::abandon().
  void unpinAll();
  // `by` more async acquisitions wait for these stripes.
  void countWaits(const std::uint32_t* stripes, std::uint32_t count, int by);

  template <typename Visit>
  void forEach(Visit visit) const {
    for (std::size_t i = 0; i < pinned_.size(); ++i) {
      for (std::uint64_t bits = pinned_[i]; bits != 0; bits &= bits - 1)
        visit(static_cast<std::uint32_t>(i * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
    }
  }

 private:
  struct Freed {
    void operator()(std::uint32_t* counts) const;
  };

  // Whether this thread holds the stripe, or an async acquisition of it waits for it. Not whether it blocks for it. Those that
  // wait in its JavaScript are behind one of these (I9 in lib/engine/native/local-waits.ts).
  bool uses(std::uint32_t stripe) const;
  bool has(std::uint32_t stripe) const {
    return stripe / 64 < pinned_.size() && (pinned_[stripe / 64] >> (stripe % 64) & 1) != 0;
  }
  void add(std::uint32_t stripe) { pinned_[stripe / 64] |= std::uint64_t{1} << (stripe % 64); }
  void remove(std::uint32_t stripe) { pinned_[stripe / 64] &= ~(std::uint64_t{1} << (stripe % 64)); }

  const Membership& membership_;
  KeyTable& keys_;
  // A bit for each stripe that this thread has pinned.
  std::vector<std::uint64_t> pinned_;
  // How many async acquisitions of this thread ask for each stripe.
  std::unique_ptr<std::uint32_t[], Freed> waits_;
};

}  // namespace stripelock
