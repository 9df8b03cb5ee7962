// Hashes keys, and maps them to stripes.

#pragma once

#include <cstddef>
#include <cstdint>

namespace stripelock {

// XXH3, 64 bits, seed 0 (Yann Collet).
std::uint64_t hashBytes(const void* data, std::size_t length);

// XXH3 with this seed.
std::uint64_t hashBytes(const void* data, std::size_t length, std::uint64_t seed);
std::uint64_t randomSeed();

// XXH3 with a random seed, chosen once per process, so that users cannot find keys that collide in a KeyMap.
std::uint64_t hashSeeded(const void* data, std::size_t length);

inline std::uint32_t stripeOfBytes(const void* data, std::size_t length, std::uint32_t stripes) {
  return static_cast<std::uint32_t>(hashBytes(data, length) % stripes);
}

}  // namespace stripelock
