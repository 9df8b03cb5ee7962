// Where things are in a lock's shared memory, as far as the core needs to know. lib/engine/contract/layout.ts has the
// same numbers, and the rest of the header, which only JavaScript uses; a test compares the two. The memory has a
// header of six cache lines, then one line per stripe, whose first integer is the stripe's word.

#pragma once

#include <cstddef>
#include <cstdint>

namespace stripelock {

// Counters of the header, in units of 64-bit integers.
inline constexpr std::uint32_t kContendedCell = 16;
inline constexpr std::uint32_t kTimeoutsCell = 17;
inline constexpr std::uint32_t kAbortsCell = 18;
inline constexpr std::uint32_t kDeadlocksCell = 19;
inline constexpr std::uint32_t kAbandonedCell = 20;
inline constexpr std::uint32_t kWaitingCell = 21;

// How many abandoned keys the last user of an exact table has left behind: see KeyTable::~KeyTable.
inline constexpr std::uint32_t kLeftOrphans = 24;

// How long acquisitions waited, while kObserveMetrics is on: how many in each range of times, and nanoseconds in all.
inline constexpr std::uint32_t kWaitTimes = 32;
inline constexpr std::uint32_t kWaitRanges = 14;
inline constexpr std::uint32_t kWaitedNanoseconds = 46;

// In units of 32-bit integers. Which observers are on, a bit for each of the two below.
inline constexpr std::uint32_t kObservedInt = 8;
inline constexpr std::uint32_t kObserveMetrics = 1;
inline constexpr std::uint32_t kObserveProfile = 2;

inline constexpr std::uint32_t kHeaderInts = 96;
inline constexpr std::uint32_t kStripeShift = 4;
inline constexpr std::uint32_t kStripeInts = 1u << kStripeShift;
// In a stripe's line, behind its word: how many came to wait in its queue, in order of arrival.
inline constexpr std::uint32_t kArrivalsInt = 1;
// A thread's JavaScript remembers that number for what waits there, but not its highest bits.
inline constexpr std::uint32_t kArrivalMask = 0x3fff'ffff;

// Where a thread's shared holds are counted: those that its guards have, for each stripe, and then those that its async
// waiters have been granted before it knew.
constexpr std::uint32_t shareIntsFor(std::uint32_t stripes) { return 2 * stripes; }

// Where the hash of such a key is: a cell of a stripe's line, beside the word.
constexpr std::uint32_t leftHashCell(std::uint32_t stripe) {
  return (kHeaderInts + stripe * kStripeInts) / 2 + 1;
}

// Where a thread counts what waits in its JavaScript: a count for each stripe, then these.
constexpr std::uint32_t localWaitingIndex(std::uint32_t stripes) { return stripes; }
constexpr std::uint32_t localContendedIndex(std::uint32_t stripes) { return stripes + 1; }
constexpr std::uint32_t localIntsFor(std::uint32_t stripes) { return stripes + 2; }

inline constexpr std::uint32_t kMaxStripes = 1048576;
inline constexpr std::uint32_t kMaxLimit = 1048576;

constexpr std::size_t byteLengthFor(std::uint32_t stripes) {
  return (std::size_t{kHeaderInts} + std::size_t{stripes} * kStripeInts) * sizeof(std::int32_t);
}

}  // namespace stripelock
