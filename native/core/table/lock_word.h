// The bits of a stripe's 32-bit word. lib/engine/contract/lock-word.ts has the same table; a test compares the two.
//
//   word                        meaning
//   0                           free
//   slot                        held exclusively by the participant with that slot
//   kShared + n                 held shared, n times in all
//   held + kQueued              a waiter is queued: a release goes through Membership::release
//   free or shared + kAbandoned the thread of an earlier exclusive holder ended without releasing
//   slot + kAbandoned           held exclusively; the holder saw such an end, and its release clears kAbandoned
//   slot + kLocal               tasks of the holder's thread wait in JavaScript, which handles the release (I8)
//   kShared + n (permits)       n of the Table::limit() permits are taken; kQueued is set only while all are taken
//   n permits + kAbandoned      the thread of an earlier holder ended without releasing. kDeathReported: a later holder
//                               has seen that, so the next release clears both flags. A roll-back or another death
//                               clears only kDeathReported (P3 in table.h).
//
// JavaScript changes words only as follows, and calls the core in every other case:
//
//   take      0 -> slot, 0 -> kShared + 1, or kShared + n -> kShared + n + 1. A permit is taken only while n < limit.
//   release   The reverse. While n > 1, kShared + n may also have other flags, which stay set. A permit is released
//             only if kShared is the only flag, because a waiter may wait for any permit.
//   kLocal    A thread adds kLocal to a word that has its slot, and releases slot + kLocal.

#pragma once

#include <cstdint>

namespace stripelock {

inline constexpr std::uint32_t kQueued = 0x80000000u;
inline constexpr std::uint32_t kAbandoned = 0x40000000u;
inline constexpr std::uint32_t kShared = 0x20000000u;
inline constexpr std::uint32_t kLocal = 0x10000000u;
// The same bit as kLocal. Only words that count permits use kDeathReported. Such words never need kLocal, because no
// tasks wait for permits in JavaScript.
inline constexpr std::uint32_t kDeathReported = kLocal;
inline constexpr std::uint32_t kHolderMask = 0x0fffffffu;

constexpr bool isFree(std::uint32_t word) { return (word & (kShared | kHolderMask)) == 0; }
// The slot of the holder, or the number of holds: see namesHolder() and countsHolds() in mode.h.
constexpr std::uint32_t holderOf(std::uint32_t word) { return word & kHolderMask; }

}  // namespace stripelock
