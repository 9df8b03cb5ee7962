// The layout of a lock's shared memory, as far as the core uses it. lib/engine/contract/layout.ts has the same numbers,
// and the rest of the header, which only JavaScript uses; a test compares the two. The memory has a header of six cache
// lines, then one line per stripe, whose first integer is the stripe's word.

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

// The number of abandoned keys that the last user of an exact table left: see KeyTable::~KeyTable.
inline constexpr std::uint32_t kLeftOrphans = 24;

// A histogram of waits, kept while kObserveMetrics is on: a count for each range of times, then the sum in nanoseconds.
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
// In a stripe's line, behind its word: the number of arrivals at its queue so far.
inline constexpr std::uint32_t kArrivalsInt = 1;
// JavaScript keeps this number for its waiters, without its highest bits.
inline constexpr std::uint32_t kArrivalMask = 0x3fff'ffff;

// A thread's counts of shared holds: first its guards' holds for each stripe, then for each stripe the grants to its
// async waiters that it has not collected yet.
constexpr std::uint32_t shareIntsFor(std::uint32_t stripes) { return 2 * stripes; }

// The cell with the hash of an abandoned key: in a stripe's line, beside the word.
constexpr std::uint32_t leftHashCell(std::uint32_t stripe) {
  return (kHeaderInts + stripe * kStripeInts) / 2 + 1;
}

// A thread's counts of acquisitions that wait in its JavaScript: one for each stripe, then these two.
constexpr std::uint32_t localWaitingIndex(std::uint32_t stripes) { return stripes; }
constexpr std::uint32_t localContendedIndex(std::uint32_t stripes) { return stripes + 1; }
constexpr std::uint32_t localIntsFor(std::uint32_t stripes) { return stripes + 2; }

inline constexpr std::uint32_t kMaxStripes = 1048576;
inline constexpr std::uint32_t kMaxLimit = 1048576;

constexpr std::size_t byteLengthFor(std::uint32_t stripes) {
  return (std::size_t{kHeaderInts} + std::size_t{stripes} * kStripeInts) * sizeof(std::int32_t);
}

}  // namespace stripelock
