// One thread's pins in a table of exact keys (key_table.h). A key is pinned once, however often the thread looks it up.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/zeroed.h"
#include "core/table/key_table.h"

namespace stripelock {

class Membership;

// Only the thread itself calls these functions. The thread may end between two calls. Then unpinAll() ends the pins
// that are recorded in pinned_.
class KeyPins {
 public:
  struct Pinned {
    // KeyTable::kNone if all stripes belong to other keys.
    std::uint32_t stripe;
    // True if this thread had already pinned the key.
    bool again = false;
    // See KeyTable::Pinned.
    bool crowded = false;
    // True if the pin of `idle` has ended. If `idle` is also the returned stripe, it is pinned again. Can be true even
    // if `stripe` is kNone.
    bool ended = false;
  };

  // The membership's table must have exact keys, and the membership must outlive this object.
  explicit KeyPins(const Membership& membership);

  // Pins the key. `idle`: a stripe to unpin, or kNone. `idle` stays pinned if this thread uses it or is blocked, and is
  // pinned again if `key` is its key. If no thread has `idle` pinned after that, the word of `idle` is 0, and the key
  // has no stripe yet, the key gets `idle`.
  Pinned pin(const KeyView& key, std::uint32_t idle = KeyTable::kNone, bool blocked = false);
  // Unpins the listed stripes, except those that this thread uses. If the thread is blocked, unpins none. Moves the
  // kept stripes to the front, and returns their number. A stripe that is listed twice counts once.
  std::size_t unpin(std::int32_t* stripes, std::size_t count, bool blocked = false);
  // Ends all pins. Call it when the thread ends or closes the table, after Membership::abandon().
  void unpinAll();
  // Adds `by` to the number of async acquisitions that wait for these stripes.
  void countWaits(const std::uint32_t* stripes, std::uint32_t count, int by);

  template <typename Visit>
  void forEach(Visit visit) const {
    for (std::size_t i = 0; i < pinned_.size(); ++i) {
      for (std::uint64_t bits = pinned_[i]; bits != 0; bits &= bits - 1)
        visit(static_cast<std::uint32_t>(i * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
    }
  }

 private:
  // Whether this thread holds the stripe, or one of its async acquisitions waits for it. A blocking wait does not
  // count. Acquisitions that wait in JavaScript need no check: they wait only behind such a hold or async acquisition
  // (I9 in lib/engine/native/local-waits.ts).
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
  // For each stripe, the number of this thread's async acquisitions that wait for it.
  std::optional<Zeroed<std::uint32_t>> waits_;
};

}  // namespace stripelock
