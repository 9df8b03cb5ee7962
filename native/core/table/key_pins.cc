#include "core/table/key_pins.h"

#include <algorithm>

#include "core/table/membership.h"

namespace stripelock {

KeyPins::KeyPins(const Membership& membership) : membership_(membership), keys_(*membership.table().keys()) {}

KeyPins::Pinned KeyPins::pin(const KeyView& key, std::uint32_t idle, bool blocked) {
  // mutant: N4-gives-awaited
  if (blocked) idle = KeyTable::kNone;
  // mutant: N4-gives-used
  const bool ends = idle != KeyTable::kNone && has(idle) && !uses(idle);
  if (ends) remove(idle);
  const KeyTable::Pinned got = keys_.pin(key, ends ? idle : KeyTable::kNone);
  const std::uint32_t stripe = got.stripe;
  // mutant: N4-hides-end
  if (stripe == KeyTable::kNone) return {.stripe = stripe, .ended = ends};
  if (has(stripe)) {
    keys_.unpin(stripe);
    return {.stripe = stripe, .again = true, .ended = ends};
  }
  if (pinned_.size() <= stripe / 64) {
    // At least doubles the size. At first, each new stripe has a higher index than the last, so each pin would
    // otherwise resize the vector.
    const std::size_t most = (std::size_t{membership_.table().stripes()} + 63) / 64;
    pinned_.resize(std::min(most, std::max<std::size_t>(stripe / 64 + 1, 2 * pinned_.size())));
  }
  add(stripe);
  return {.stripe = stripe, .crowded = got.crowded, .ended = ends};
}

std::size_t KeyPins::unpin(std::int32_t* stripes, std::size_t count, bool blocked) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto stripe = static_cast<std::uint32_t>(stripes[i]);
    // The list may contain a stripe twice.
    if (!has(stripe)) continue;
    // The bit stays cleared until the end of this function, even if the stripe is kept. So a stripe that is listed
    // twice is kept once.
    remove(stripe);
    // mutant: N4-unpins-blocked
    const bool stays = blocked || uses(stripe);
    if (stays)
      stripes[kept++] = stripes[i];
    else
      keys_.unpin(stripe);
  }
  for (std::size_t i = 0; i < kept; ++i) add(static_cast<std::uint32_t>(stripes[i]));
  return kept;
}

void KeyPins::unpinAll() {
  forEach([this](std::uint32_t stripe) { keys_.unpin(stripe); });
  pinned_.clear();
}

bool KeyPins::uses(std::uint32_t stripe) const {
  return membership_.holds(stripe) || (waits_ && (*waits_)[stripe] != 0);
}

void KeyPins::countWaits(const std::uint32_t* stripes, std::uint32_t count, int by) {
  if (!waits_) {
    waits_.emplace(membership_.table().stripes());
  }
  for (std::uint32_t i = 0; i < count; ++i) (*waits_)[stripes[i]] += static_cast<std::uint32_t>(by);
}

}  // namespace stripelock
