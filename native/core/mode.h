// The modes in which a stripe can be held. One table says what each of them admits and how a word shows it; the rest of
// the core asks that table and does not know which modes there are. The bits are in lock_word.h. After the table of
// "how" in abseil's Mutex.
//
// To add a mode, add its number and its row. If it goes together with another mode in a new way, also change withHold()
// and withoutHolds().

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/lock_word.h"

namespace stripelock {

// JavaScript passes these numbers.
enum class Mode : std::uint8_t { kExclusive = 0, kShared = 1 };

struct ModeTraits {
  // Only people read it.
  const char* name;
  // The bits of kModeFlags that are set in the word of a stripe held in this mode.
  std::uint32_t flag;
  // The word counts the holds, and each thread counts its own (Membership::sharesOf). Otherwise the word has the slot
  // of the one holder.
  bool counted;
  // The holder may change what the lock protects, and is alone with it. So its death is told, and its release clears
  // kAbandoned: it was told, and has dealt with it.
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
// All bits of a word that say in which mode its stripe is held.
inline constexpr std::uint32_t kModeFlags = kShared;

constexpr const ModeTraits& traitsOf(Mode mode) { return kModeTraits[static_cast<std::size_t>(mode)]; }
constexpr bool isCounted(Mode mode) { return traitsOf(mode).counted; }
// Whether one thread may hold a stripe in one mode while another holds it in the other.
constexpr bool goTogether(Mode one, Mode other) { return (traitsOf(one).admits & bitOf(other)) != 0; }
// Whether several may hold a stripe in this mode.
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

// Whether the stripes of a table with that limit have permits: shared holds, of which there are never more than `limit`
// (P1, table.h). Such stripes are held in no other mode.
constexpr bool hasPermits(std::uint32_t limit) { return limit > 1; }
// Whether the next holders are told of a holder that died. A reader cannot have left anything half-written.
constexpr bool isDeathTold(Mode mode, std::uint32_t limit) {
  return traitsOf(mode).mayWrite || hasPermits(limit);
}
// The most holds of a word that counts them.
constexpr std::uint32_t mostHolds(std::uint32_t limit) { return hasPermits(limit) ? limit : kHolderMask; }

// How many more may hold the stripe in `mode`: 0 if the current holders do not admit it, or if their count is at its
// maximum. Does not look at kQueued.
constexpr std::uint32_t placesFor(std::uint32_t word, Mode mode, std::uint32_t limit = 1) {
  if (!isFree(word) && !goTogether(modeOf(word), mode)) return 0;
  if (!isCounted(mode)) return 1;
  const std::uint32_t holds = holderOf(word);
  return holds < mostHolds(limit) ? mostHolds(limit) - holds : 0;
}

// The word with one more hold in `mode`, by the participant with that slot. Nothing if there is no place for it (keeps
// P1: nothing else adds to a count). Keeps the flags; a permit of an abandoned word is told of that, which kTold says (P3).
constexpr std::optional<std::uint32_t> withHold(std::uint32_t word, Mode mode, std::uint32_t slot,
                                                std::uint32_t limit = 1) {
  if (placesFor(word, mode, limit) == 0) return std::nullopt;
  const std::uint32_t told = hasPermits(limit) && (word & kAbandoned) != 0 ? kTold : 0;
  if (isFree(word)) return word | traitsOf(mode).flag | (isCounted(mode) ? 1 : slot) | told;
  return (word + 1) | told;
}

// The word with `count` fewer holds. Nothing if, according to the word, the stripe is not held in this way: somebody
// tampered with it, or the caller is wrong. Keeps the flags.
constexpr std::optional<std::uint32_t> withoutHolds(std::uint32_t word, Mode mode, std::uint32_t slot,
                                                    std::uint32_t count) {
  if (!isCounted(mode)) {
    if (!isHeldAloneBy(word, slot)) return std::nullopt;
    // Whoever comes next has other tasks, if any (keeps I8).
    return word & ~(kModeFlags | kHolderMask | kLocal);
  }
  if (isFree(word) || modeOf(word) != mode || holderOf(word) < count) return std::nullopt;
  return holderOf(word) == count ? word & ~(kModeFlags | kHolderMask) : word - count;
}

// The mode that Membership::sharesOf counts. There is one such count for each stripe.
inline constexpr Mode kCountedMode = Mode::kShared;

static_assert([] {
  std::uint32_t flags = 0;
  for (std::size_t i = 0; i < kModes; ++i) {
    const auto mode = static_cast<Mode>(i);
    // Each mode can be told from the others. Modes that go together are counted, all in one count.
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
