// The bits of a stripe's 32-bit word. lib/engine/contract/lock-word.ts has the same table; a test compares the two.
//
//   word                        meaning
//   0                           free
//   slot                        held exclusively by the participant with that slot
//   kShared + n                 held shared, n times in all
//   held + kQueued              a waiter is queued: a release goes through Membership::release
//   free or shared + kAbandoned the thread of an earlier holder that may write ended without releasing
//   slot + kAbandoned           the same, and the new holder saw it; cleared when that holder releases
//   slot + kLocal               tasks of the holder's own thread wait in JavaScript: its release goes there (I8)
//   kShared + n, of permits     n of the limit's permits are taken (Table::limit); kQueued only while all of them are
//   the same + kAbandoned + kTold  a holder was granted after the death and saw it; the next release clears both flags;
//                               a roll-back or a death clears kTold alone (P3 of table.h)
//
// JavaScript takes a stripe by 0 -> slot, 0 -> kShared + 1 or kShared + n -> kShared + n + 1, and gives it back by the
// reverse of these, or from kShared + n with any flags to one less while n > 1. A thread adds kLocal to a word that has
// its slot, and frees slot + kLocal. For any other word it calls the core. It takes a permit only while n < limit. It
// gives one back only if the word has no flag but kShared, because a waiter may wait for any permit.

#pragma once

#include <cstdint>

namespace stripelock {

inline constexpr std::uint32_t kQueued = 0x80000000u;
inline constexpr std::uint32_t kAbandoned = 0x40000000u;
inline constexpr std::uint32_t kShared = 0x20000000u;
inline constexpr std::uint32_t kLocal = 0x10000000u;
// Used only in words of permits, where no tasks wait in JavaScript.
inline constexpr std::uint32_t kTold = kLocal;
inline constexpr std::uint32_t kHolderMask = 0x0fffffffu;

constexpr bool isFree(std::uint32_t word) { return (word & (kShared | kHolderMask)) == 0; }
// A slot, or the number of holds; mode.h says which.
constexpr std::uint32_t holderOf(std::uint32_t word) { return word & kHolderMask; }

}  // namespace stripelock
