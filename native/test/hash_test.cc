#include "core/hash.h"

#include <array>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "core/exact_key.h"

namespace stripelock::test {

namespace {

// The input bytes of xxHash's own sanity check (tests/sanity_test_vectors.h), which publishes the hashes.
std::string sanityBuffer(std::size_t length) {
  std::string bytes;
  std::uint64_t generator = 2654435761u;
  while (bytes.size() < length) {
    bytes.push_back(static_cast<char>(generator >> 56));
    generator *= 11400714785074694797u;
  }
  return bytes;
}

}  // namespace

TEST(Hash, IsXxh3OfEveryLengthClass) {
  struct Vector {
    std::size_t length;
    std::uint64_t hash;
  };
  // From xxHash 0.8: XSUM_XXH3_testdata with seed 0. XXH3 has separate code paths for 0, 1-3, 4-8, 9-16, 17-128,
  // 129-240 and more bytes.
  constexpr std::array<Vector, 12> kVectors{{{0, 0x2D06800538D394C2},
                                             {1, 0xC44BDFF4074EECDB},
                                             {6, 0x27B56A84CD2D7325},
                                             {12, 0xA713DAF0DFBB77E7},
                                             {24, 0xA3FE70BF9D3510EB},
                                             {48, 0x397DA259ECBA1F11},
                                             {80, 0xBCDEFBBB2C47C90A},
                                             {195, 0xCD94217EE362EC3A},
                                             {403, 0xCDEB804D65C6DEA4},
                                             {512, 0x617E49599013CB6B},
                                             {2048, 0xDD59E2C3A5F038E0},
                                             {2240, 0x6E73A90539CF2948}}};
  const std::string bytes = sanityBuffer(2240);
  for (const Vector& vector : kVectors) {
    EXPECT_EQ(hashBytes(bytes.data(), vector.length), vector.hash) << vector.length << " bytes";
  }
}

TEST(Hash, DoesNotDependOnAlignment) {
  const std::string bytes = sanityBuffer(300);
  for (std::size_t offset = 1; offset < 16; ++offset) {
    const std::string shifted = std::string(offset, ' ') + bytes;
    for (std::size_t length = 0; length <= bytes.size(); length += 7) {
      EXPECT_EQ(hashBytes(shifted.data() + offset, length), hashBytes(bytes.data(), length));
    }
  }
}

TEST(Hash, PutsAKeyOnAStripeByTheRemainderOfAll64Bits) {
  const std::string bytes = sanityBuffer(64);
  for (const std::uint32_t stripes : {1u, 2u, 3u, 1000u, 1024u, 1048576u}) {
    for (std::size_t length = 0; length <= bytes.size(); ++length) {
      const std::uint64_t remainder = hashBytes(bytes.data(), length) % stripes;
      EXPECT_EQ(stripeOfBytes(bytes.data(), length, stripes), remainder);
    }
  }
}

TEST(Hash, SpreadsSimilarKeysEvenly) {
  constexpr std::uint32_t kStripes = 64;
  constexpr int kPerStripe = 1000;
  std::array<int, kStripes> counts{};
  for (int i = 0; i < static_cast<int>(kStripes) * kPerStripe; ++i) {
    const std::string key = "account:" + std::to_string(i);
    ++counts[stripeOfBytes(key.data(), key.size(), kStripes)];
  }
  // Seven standard deviations of a fair draw.
  for (const int count : counts) EXPECT_NEAR(count, kPerStripe, 7 * 32);
}

TEST(Hash, GivesKeysThatWereChosenToMeetInAChainPlacesOfTheirOwn) {
  constexpr std::uint64_t kPlaces = 1 << 16;
  std::set<std::uint64_t> places;
  std::size_t keys = 0;
  for (std::uint32_t i = 0; keys < 16; ++i) {
    const std::string key = std::to_string(i);
    if (hashBytes(key.data(), key.size()) % kPlaces != 0) continue;
    ++keys;
    places.insert(KeyView(key).hash % kPlaces);
  }
  EXPECT_GT(places.size(), 12u);
}

}  // namespace stripelock::test
