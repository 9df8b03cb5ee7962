#include "core/mode.h"

#include <array>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr std::array<std::uint32_t, 4> kFlags{0, kQueued, kAbandoned, kQueued | kAbandoned};

}  // namespace

TEST(Mode, OfAHeldWordIsTheOneThatItWasTakenIn) {
  for (const Mode mode : kEachMode) {
    for (const std::uint32_t flags : kFlags) {
      const auto held = withHold(flags, mode, 7);
      ASSERT_TRUE(held);
      EXPECT_EQ(modeOf(*held), mode);
      EXPECT_EQ(countsHolds(*held), isCounted(mode));
      EXPECT_EQ(isHeldAloneBy(*held, 7), !isCounted(mode));
      EXPECT_EQ(*held & (kQueued | kAbandoned), flags);
    }
  }
}

TEST(Mode, OfAFreeWordCountsAndNamesNobody) {
  for (const std::uint32_t flags : kFlags) {
    EXPECT_FALSE(countsHolds(flags) || namesHolder(flags) || isHeldAloneBy(flags, 0));
  }
}

TEST(Mode, AdmitsSharedHoldsToSharedOnesAndNothingElse) {
  for (const Mode held : kEachMode) {
    for (const Mode mode : kEachMode) {
      const bool both = held == Mode::kShared && mode == Mode::kShared;
      EXPECT_EQ(goTogether(held, mode), both);
      EXPECT_EQ(withHold(*withHold(0, held, 7), mode, 8).has_value(), both);
    }
  }
  EXPECT_TRUE(isJoint(Mode::kShared));
  EXPECT_FALSE(isJoint(Mode::kExclusive));
}

TEST(Mode, AdmitsNoMoreHoldsThanAWordCounts) {
  const std::uint32_t full = kShared | kHolderMask;
  EXPECT_EQ(withHold(full - 1, Mode::kShared, 7), full);
  for (const Mode mode : kEachMode) EXPECT_FALSE(withHold(full, mode, 7));
}

TEST(Mode, LeavesTheWordFreeWithTheLastHold) {
  for (const std::uint32_t flags : kFlags) {
    EXPECT_EQ(withoutHolds(flags | 7, Mode::kExclusive, 7, 1), flags);
    EXPECT_EQ(withoutHolds((kShared + 3) | flags, Mode::kShared, 7, 1), (kShared + 2) | flags);
    EXPECT_EQ(withoutHolds((kShared + 3) | flags, Mode::kShared, 7, 3), flags);
  }
}

TEST(Mode, IsLeftOnlyAsTheWordSaysThatItIsHeld) {
  for (const std::uint32_t flags : kFlags) {
    for (const Mode mode : kEachMode) EXPECT_FALSE(withoutHolds(flags, mode, 7, 1));
    EXPECT_FALSE(withoutHolds(8 | flags, Mode::kExclusive, 7, 1));
    EXPECT_FALSE(withoutHolds(7 | flags, Mode::kShared, 7, 1));
    EXPECT_FALSE(withoutHolds((kShared + 7) | flags, Mode::kExclusive, 7, 1));
    EXPECT_FALSE(withoutHolds((kShared + 2) | flags, Mode::kShared, 7, 3));
    EXPECT_FALSE(withoutHolds(kShared | flags, Mode::kShared, 7, 1));
  }
}

}  // namespace stripelock::test
