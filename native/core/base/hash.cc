#include "core/base/hash.h"

#include <random>

#define XXH_INLINE_ALL
#include "xxhash.h"

namespace stripelock {

std::uint64_t hashBytes(const void* data, std::size_t length) { return XXH3_64bits(data, length); }

std::uint64_t hashBytes(const void* data, std::size_t length, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, length, seed);
}

std::uint64_t randomSeed() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

std::uint64_t hashSeeded(const void* data, std::size_t length) {
  static const std::uint64_t seed = randomSeed();
  return hashBytes(data, length, seed);
}

}  // namespace stripelock
