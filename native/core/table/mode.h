// The modes in which a stripe can be held. kModeTraits defines, for each mode, its bits in the word and the modes that
// it admits. The rest of the core uses only this table. lock_word.h defines the bits. Modelled after the table of lock
// modes in abseil's Mutex.
//
// To add a mode, add its number to Mode, and its row to kModeTraits. If the new mode can be held together with
// another mode, also change withHold() and withoutHolds().

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/table/lock_word.h"

namespace stripelock {

// lib/engine/contract/mode.ts has the same numbers.
enum class Mode : std::uint8_t { kExclusive = 0, kShared = 1 };

struct ModeTraits {
  // For messages only.
  const char* name;
  // The bits of kModeFlags that are set in the word of a stripe held in this mode.
  std::uint32_t flag;
  // True: the word counts the holds, and each thread also counts its own holds (Membership::sharesOf). False: the word
  // contains the slot of the only holder.
  bool counted;
  // Whether a holder excludes all others and may write. The death of such a holder is reported: the next holder sees
  // kAbandoned, and clears the flag when it releases.
  bool mayWrite;
  // The modes in which others may hold the stripe at the same time: bit n for mode n.
  std::uint32_t admits;
};

constexpr std::uint32_t bitOf(Mode mode) { return 1u << static_cast<unsigned>(mode); }

inline constexpr std::array<ModeTraits, 2> kModeTraits{{
    {.name = "exclusive", .flag = 0, .counted = false, .mayWrite = true, .admits = 0},
    {.name = "shared", .flag = kShared, .counted = true, .mayWrite = false, .admits = bitOf(Mode::kShared)},
}};
inline constexpr std::size_t kModes = kModeTraits.size();
// All bits of a word that encode the mode in which its stripe is held.
inline constexpr std::uint32_t kModeFlags = kShared;

constexpr const ModeTraits& traitsOf(Mode mode) { return kModeTraits[static_cast<std::size_t>(mode)]; }
constexpr bool isCounted(Mode mode) { return traitsOf(mode).counted; }
// Whether one thread may hold a stripe in one of the modes while another thread holds it in the other mode.
constexpr bool goTogether(Mode one, Mode other) { return (traitsOf(one).admits & bitOf(other)) != 0; }
// Whether several threads may hold a stripe in this mode at the same time.
constexpr bool isJoint(Mode mode) { return goTogether(mode, mode); }

// The mode in which a stripe is held. Meaningless if the stripe is free.
constexpr Mode modeOf(std::uint32_t word) {
  for (std::size_t i = 1; i < kModes; ++i) {
    if ((word & kModeFlags) == kModeTraits[i].flag) return static_cast<Mode>(i);
  }
  return Mode::kExclusive;
}
// A word that is not free either counts its holds or names its holder.
constexpr bool countsHolds(std::uint32_t word) { return !isFree(word) && isCounted(modeOf(word)); }
constexpr bool namesHolder(std::uint32_t word) { return !isFree(word) && !isCounted(modeOf(word)); }
constexpr bool isHeldAloneBy(std::uint32_t word, std::uint32_t slot) {
  return namesHolder(word) && holderOf(word) == slot;
}

// Whether the stripes of a table with this limit have permits: shared holds, at most `limit` for each stripe (P1 in
// table.h). Such stripes are held in no other mode.
constexpr bool hasPermits(std::uint32_t limit) { return limit > 1; }
// Whether a holder's death is reported to the next holders. A reader's death is not reported, because a reader cannot
// have left anything half-written.
constexpr bool reportsDeath(Mode mode, std::uint32_t limit) {
  return traitsOf(mode).mayWrite || hasPermits(limit);
}
// The maximum number of holds in a word that counts them.
constexpr std::uint32_t mostHolds(std::uint32_t limit) { return hasPermits(limit) ? limit : kHolderMask; }

// How many more holds in `mode` the stripe has room for: 0 if the current holders do not admit the mode, or if their
// count is at its maximum. Ignores kQueued.
constexpr std::uint32_t placesFor(std::uint32_t word, Mode mode, std::uint32_t limit = 1) {
  if (!isFree(word) && !goTogether(modeOf(word), mode)) return 0;
  if (!isCounted(mode)) return 1;
  const std::uint32_t holds = holderOf(word);
  return holds < mostHolds(limit) ? mostHolds(limit) - holds : 0;
}

// The word with one more hold in `mode`, by the participant with that slot. Returns nullopt if there is no room
// (preserves P1). No other C++ code adds to a count. All flags stay set. A new permit on an abandoned word sets
// kDeathReported, because the new holder sees the death (P3).
constexpr std::optional<std::uint32_t> withHold(std::uint32_t word, Mode mode, std::uint32_t slot,
                                                std::uint32_t limit = 1) {
  if (placesFor(word, mode, limit) == 0) return std::nullopt;
  const std::uint32_t reported = hasPermits(limit) && (word & kAbandoned) != 0 ? kDeathReported : 0;
  if (isFree(word)) return word | traitsOf(mode).flag | (isCounted(mode) ? 1 : slot) | reported;
  return (word + 1) | reported;
}

// The word with `count` fewer holds; kQueued and kAbandoned stay. Returns nullopt if the word does not contain these
// holds, because the word was overwritten or the caller is wrong.
constexpr std::optional<std::uint32_t> withoutHolds(std::uint32_t word, Mode mode, std::uint32_t slot,
                                                    std::uint32_t count) {
  if (!isCounted(mode)) {
    if (!isHeldAloneBy(word, slot)) return std::nullopt;
    // kLocal is cleared, because it refers to tasks of this holder's thread, not of the next holder's (preserves I8).
    return word & ~(kModeFlags | kHolderMask | kLocal);
  }
  if (isFree(word) || modeOf(word) != mode || holderOf(word) < count) return std::nullopt;
  return holderOf(word) == count ? word & ~(kModeFlags | kHolderMask) : word - count;
}

// The mode that Membership::sharesOf counts. A thread has only one count for each stripe, so only one mode can be
// counted.
inline constexpr Mode kCountedMode = Mode::kShared;

static_assert([] {
  std::uint32_t flags = 0;
  for (std::size_t i = 0; i < kModes; ++i) {
    const auto mode = static_cast<Mode>(i);
    // The words of different modes differ. Only kCountedMode is counted, and only a counted mode can be held together
    // with another hold.
    if (i > 0 && (kModeTraits[i].flag == 0 || (flags & kModeTraits[i].flag) != 0)) return false;
    if (isCounted(mode) != (mode == kCountedMode)) return false;
    flags |= kModeTraits[i].flag;
    for (std::size_t j = 0; j < kModes; ++j) {
      const auto other = static_cast<Mode>(j);
      if (goTogether(mode, other) != goTogether(other, mode)) return false;
      if (goTogether(mode, other) && !isCounted(mode)) return false;
    }
  }
  return flags == kModeFlags;
}());

}  // namespace stripelock
