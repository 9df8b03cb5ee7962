// Where things are in a lock's shared memory. The same numbers stand in lib/engine/contract/layout.ts; a test compares
// the two. A header of four cache lines, then one line per stripe, whose first integer is the stripe's word.

#pragma once

#include <cstddef>
#include <cstdint>

namespace stripelock {

// In units of 32-bit integers.
inline constexpr std::uint32_t kMagicIndex = 0;
inline constexpr std::uint32_t kVersionIndex = 1;
inline constexpr std::uint32_t kEngineIndex = 2;
inline constexpr std::uint32_t kStripesIndex = 3;
inline constexpr std::uint32_t kRegistryIndex = 4;

// In units of 64-bit integers.
inline constexpr std::uint32_t kTokenCell = 8;
inline constexpr std::uint32_t kContendedCell = 16;
inline constexpr std::uint32_t kTimeoutsCell = 17;
inline constexpr std::uint32_t kAbortsCell = 18;
inline constexpr std::uint32_t kDeadlocksCell = 19;
inline constexpr std::uint32_t kAbandonedCell = 20;
inline constexpr std::uint32_t kWaitingCell = 21;

inline constexpr std::uint32_t kHeaderInts = 64;
inline constexpr std::uint32_t kStripeShift = 4;
inline constexpr std::uint32_t kStripeInts = 1u << kStripeShift;

inline constexpr std::uint32_t kMagic = 0x5374724cu;
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint32_t kEngineNative = 1;
inline constexpr std::uint32_t kEngineJavascript = 2;

inline constexpr std::uint32_t kMaxStripes = 1048576;

constexpr std::size_t byteLengthFor(std::uint32_t stripes) {
  return (std::size_t{kHeaderInts} + std::size_t{stripes} * kStripeInts) * sizeof(std::int32_t);
}

}  // namespace stripelock
