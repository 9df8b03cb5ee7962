// The layout of a lock's shared memory. Contains only the numbers that the core uses. The memory has a header of six
// cache lines, then one line per stripe. The first integer of a stripe's line is its word.
// lib/engine/contract/layout.ts has the same numbers, and those that only JavaScript uses. A test compares the two.

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

// Index of the cell with the number of orphans that remained when the last thread left an exact table: see
// KeyTable::~KeyTable.
inline constexpr std::uint32_t kLeftOrphans = 24;

// Cells of a histogram of wait times, which is updated while kObserveMetrics is set: one count for each range of times,
// then the sum of all waits in nanoseconds.
inline constexpr std::uint32_t kWaitTimes = 32;
inline constexpr std::uint32_t kWaitRanges = 14;
inline constexpr std::uint32_t kWaitedNanoseconds = 46;

// Index, in units of 32-bit integers, of the word that has a flag for each active observer.
inline constexpr std::uint32_t kObservedInt = 8;
inline constexpr std::uint32_t kObserveMetrics = 1;
inline constexpr std::uint32_t kObserveProfile = 2;

inline constexpr std::uint32_t kHeaderInts = 96;
inline constexpr std::uint32_t kStripeShift = 4;
inline constexpr std::uint32_t kStripeInts = 1u << kStripeShift;
// Index, within a stripe's cache line, of the number of waiters that ever arrived at the stripe's queue.
inline constexpr std::uint32_t kArrivalsInt = 1;
// JavaScript stores arrival numbers without their two highest bits.
inline constexpr std::uint32_t kArrivalMask = 0x3fff'ffff;

// The number of integers in a thread's array of shared holds. The first half counts, for each stripe, the holds of the
// thread's guards. The second half counts, for each stripe, the grants to the thread's async waiters that the thread
// has not collected.
constexpr std::uint32_t shareIntsFor(std::uint32_t stripes) { return 2 * stripes; }

// Index of the cell with the hash of an abandoned key. The cell is in the stripe's line, beside the word.
constexpr std::uint32_t leftHashCell(std::uint32_t stripe) {
  return (kHeaderInts + stripe * kStripeInts) / 2 + 1;
}

// A thread has an array that counts its acquisitions that wait in JavaScript: one count for each stripe, then their
// sum, and then the number of acquisitions that ever had to wait.
constexpr std::uint32_t localWaitingIndex(std::uint32_t stripes) { return stripes; }
constexpr std::uint32_t localContendedIndex(std::uint32_t stripes) { return stripes + 1; }
constexpr std::uint32_t localIntsFor(std::uint32_t stripes) { return stripes + 2; }

inline constexpr std::uint32_t kMaxStripes = 1048576;
inline constexpr std::uint32_t kMaxLimit = 1048576;

constexpr std::size_t byteLengthFor(std::uint32_t stripes) {
  return (std::size_t{kHeaderInts} + std::size_t{stripes} * kStripeInts) * sizeof(std::int32_t);
}

}  // namespace stripelock
