#include "core/table/mode.h"

#include <array>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr std::array<std::uint32_t, 4> kFlags{0, kQueued, kAbandoned, kQueued | kAbandoned};

}  // namespace

TEST(Mode, IsReadFromAHeldWordAsItWasTaken) {
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

TEST(Mode, CountsAndNamesNobodyInAFreeWord) {
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

TEST(LockWord, IsFreeOrCountsItsHoldsOrNamesItsHolder) {
  for (const std::uint32_t flags : {0u, kQueued, kAbandoned, kQueued | kAbandoned}) {
    EXPECT_TRUE(isFree(flags) && !countsHolds(flags) && !namesHolder(flags));
    for (const std::uint32_t holder : {1u, 2u, kMaxSlots, kHolderMask}) {
      const std::uint32_t exclusive = flags | holder;
      EXPECT_TRUE(namesHolder(exclusive) && !isFree(exclusive) && !countsHolds(exclusive));
      EXPECT_TRUE(isHeldAloneBy(exclusive, holder));
      EXPECT_FALSE(isHeldAloneBy(exclusive, holder - 1));
      const std::uint32_t shared = flags | kShared | holder;
      EXPECT_TRUE(countsHolds(shared) && !isFree(shared) && !namesHolder(shared));
      EXPECT_FALSE(isHeldAloneBy(shared, holder));
      EXPECT_EQ(holderOf(shared), holder);
    }
  }
}

TEST(LockWord, HasRoomForEverySlot) {
  EXPECT_LE(kMaxSlots, kHolderMask);
  EXPECT_EQ(kQueued & kAbandoned & kShared & kLocal & kHolderMask, 0u);
  EXPECT_EQ(kQueued | kAbandoned | kShared | kLocal | kHolderMask, 0xffffffffu);
}

TEST(LockWord, LosesItsQueuedFlagWithTheLastWaiter) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  const std::uint32_t one = waiter.client.pend({0});
  const std::uint32_t other = waiter.client.pend({0}, {.mode = Mode::kShared});
  EXPECT_TRUE(waiter.async().cancel(one));
  EXPECT_EQ(memory.word(0).load(), holder.slot() | kQueued);
  EXPECT_TRUE(waiter.async().cancel(other));
  EXPECT_EQ(memory.word(0).load(), holder.slot());
}

TEST(LockWord, RefusesAReleaseByWhoDoesNotHoldIt) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer other(memory);
  EXPECT_FALSE(other.client.releaseSlow(0));
  EXPECT_FALSE(other.client.releaseSlow(0, Mode::kShared));
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(1, Mode::kShared));
  for (const Mode mode : kEachMode) {
    EXPECT_FALSE(other.client.releaseSlow(0, mode));
    EXPECT_FALSE(other.client.releaseSlow(1, mode));
  }
  EXPECT_FALSE(holder.client.releaseSlow(0, Mode::kShared));
  EXPECT_FALSE(holder.client.releaseSlow(1, Mode::kExclusive));
  EXPECT_EQ(memory.word(0).load(), holder.slot());
  EXPECT_EQ(memory.word(1).load(), kShared + 1);
}

}  // namespace stripelock::test
