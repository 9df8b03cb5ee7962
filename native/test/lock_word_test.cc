#include "core/lock_word.h"

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

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

TEST(LockWord, SaysWhoHoldsAfterTheFastPath) {
  SharedMemory memory(2);
  Peer peer(memory);
  EXPECT_TRUE(peer.client.take(0));
  EXPECT_EQ(memory.word(0).load(), peer.slot());
  EXPECT_FALSE(peer.client.take(0));
  EXPECT_FALSE(peer.client.take(0, Mode::kShared));
  EXPECT_TRUE(peer.client.giveBack(0));
  EXPECT_EQ(memory.word(0).load(), 0u);
  EXPECT_EQ(memory.word(1).load(), 0u);
}

TEST(LockWord, CountsSharedHoldsOfTheFastPath) {
  SharedMemory memory(1);
  Peer one(memory);
  Peer other(memory);
  EXPECT_TRUE(one.client.take(0, Mode::kShared));
  EXPECT_TRUE(other.client.take(0, Mode::kShared));
  EXPECT_TRUE(one.client.take(0, Mode::kShared));
  EXPECT_EQ(memory.word(0).load(), kShared + 3);
  EXPECT_EQ(one.client.membership().sharesOf(0), 2u);
  EXPECT_EQ(other.client.membership().sharesOf(0), 1u);
  EXPECT_FALSE(one.client.take(0));
  EXPECT_TRUE(one.client.giveBack(0, Mode::kShared));
  EXPECT_TRUE(other.client.giveBack(0, Mode::kShared));
  EXPECT_TRUE(one.client.giveBack(0, Mode::kShared));
  EXPECT_EQ(memory.word(0).load(), 0u);
}

TEST(LockWord, IsTheSameAfterTheCoreAsAfterTheFastPath) {
  SharedMemory memory(1);
  Peer peer(memory);
  for (const Mode mode : kEachMode) {
    ASSERT_EQ(peer.client.sync({0}, {.mode = mode, .fast = false}), Status::kGranted);
    EXPECT_EQ(memory.word(0).load(), isCounted(mode) ? kShared + 1 : peer.slot());
    EXPECT_TRUE(peer.client.giveBack(0, mode));
    ASSERT_TRUE(peer.client.take(0, mode));
    EXPECT_TRUE(peer.client.releaseSlow(0, mode));
    EXPECT_EQ(memory.word(0).load(), 0u);
    EXPECT_EQ(peer.client.membership().sharesOf(0), 0u);
  }
}

TEST(LockWord, SendsTheHolderToTheCoreWhileSomebodyWaits) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  waiter.client.pend({0});
  EXPECT_EQ(memory.word(0).load(), holder.slot() | kQueued);
  EXPECT_FALSE(holder.client.giveBack(0));
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.releaseSlow(0));
  EXPECT_EQ(memory.word(0).load(), waiter.slot());
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
