// A thread blocks in a sync wait while it has pending acquisitions. The thread could not use their grants, so the
// acquisitions hold nothing until the thread continues.

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "core/table/sync_wait.h"
#include "test/support.h"

namespace stripelock::test {

TEST(Reclaim, IsWokenForAGrantThatWasDecidedBeforeItsThreadBlocked) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer peer(memory);
  Peer other(memory);
  double quickest = kForever;
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(holder.client.take(0));
    ASSERT_TRUE(holder.client.take(1));
    peer.client.pend({0});
    // This thread waits for the stripe that the blocked thread is granted and cannot use.
    Blocking behind(other.client, {0});
    ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
    Barrier barrier("grant: before it is told");
    makeHandOverDue(holder.client, 0);
    std::thread releasing([&] { EXPECT_TRUE(holder.client.release({0})); });
    ASSERT_TRUE(barrier.awaitArrival());
    Blocking blocking(peer.client, {1});
    ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
    // By then the thread is in its second slice.
    std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice * 3 / 2));
    const Nanoseconds told = now();
    barrier.open();
    releasing.join();
    EXPECT_EQ(behind.status(), Status::kGranted);
    quickest = std::min(quickest, milliseconds(now() - told));
    EXPECT_TRUE(holder.client.release({1}));
    EXPECT_EQ(blocking.status(), Status::kGranted);
    EXPECT_TRUE(peer.client.release({1}));
    EXPECT_TRUE(other.client.release({0}));
    EXPECT_EQ(awaitGrants(peer.environment).size(), 1u);
    EXPECT_TRUE(peer.client.release({0}));
  }
  // Without the wake, the thread would notice the grant at the end of the slice, about 15 ms later, in every round.
  EXPECT_LT(quickest, 10);
}

TEST(Reclaim, GivesBackPartOfASetThatItsThreadBlocksOn) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer peer(memory);
  ASSERT_TRUE(holder.client.take(1));
  const std::uint32_t pending = peer.client.pend({0, 1});
  ASSERT_EQ(memory.word(0).load(), peer.slot());
  EXPECT_EQ(peer.client.sync({0}, {.timeout = kStuck}), Status::kGranted);
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_TRUE(takeGrants(peer.environment).empty());
  EXPECT_TRUE(peer.client.release({0}));
  const auto grants = takeGrants(peer.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, pending);
  EXPECT_TRUE(peer.client.release({0, 1}));
}

TEST(Reclaim, GivesToOtherThreadsWhatItTakesBack) {
  SharedMemory memory(3);
  Peer blocker(memory);
  Peer peer(memory);
  Peer other(memory);
  ASSERT_TRUE(blocker.client.take(1));
  ASSERT_TRUE(blocker.client.take(2));
  // This acquisition holds stripe 0 and waits for stripe 1.
  const std::uint32_t pending = peer.client.pend({0, 1});
  // This thread needs stripe 0. It then releases the stripe that the peer is going to block for.
  Blocking zero(other.client, {0});
  ASSERT_TRUE(awaitWaiters(blocker.client, 0, 1));
  Blocking two(peer.client, {2});
  EXPECT_EQ(zero.status(), Status::kGranted);
  EXPECT_TRUE(blocker.client.release({1}));
  EXPECT_TRUE(blocker.client.release({2}));
  EXPECT_EQ(two.status(), Status::kGranted);
  EXPECT_TRUE(other.client.release({0}));
  const auto grants = awaitGrants(peer.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, pending);
  EXPECT_TRUE(peer.client.release({0, 1}));
  EXPECT_TRUE(peer.client.release({2}));
}

TEST(Reclaim, PutsAPendingAcquisitionBackByItsTimeOfArrival) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer peer(memory);
  Peer later(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(1));
  const std::uint32_t first = peer.client.pend({0});
  EXPECT_TRUE(holder.client.release({0}));
  // The peer blocks, so it gives back its grant.
  Blocking blocking(peer.client, {1});
  ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
  ASSERT_TRUE(eventually([&] { return waitersOf(holder.client, 0) == 1; }));
  ASSERT_TRUE(holder.client.take(0));
  later.client.pend({0});
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(holder.client.releaseSlow(0));
  const auto grants = awaitGrants(peer.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, first);
}

TEST(Reclaim, MakesUpForGrantsThatWerePassedOver) {
  SharedMemory memory(3);
  Peer holder(memory);
  Peer peer(memory);
  for (const std::uint32_t stripe : {0u, 1u, 2u}) ASSERT_TRUE(holder.client.take(stripe));
  const std::uint32_t one = peer.client.pend({0});
  const std::uint32_t other = peer.client.pend({0, 1}, {.mode = Mode::kShared});
  Blocking blocking(peer.client, {2});
  ASSERT_TRUE(awaitWaiters(holder.client, 2, 1));
  EXPECT_TRUE(holder.client.release({0, 1}));
  // No other thread wants these stripes, but they are still not granted to a blocked thread.
  EXPECT_EQ(memory.word(0).load(), 0u);
  EXPECT_EQ(memory.word(1).load(), 0u);
  EXPECT_TRUE(holder.client.release({2}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  auto grants = awaitGrants(peer.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, one);
  EXPECT_TRUE(peer.client.release({0}));
  grants = takeGrants(peer.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, other);
}

TEST(Reclaim, MakesUpForAReleaseInTheInstantBeforeTheThreadContinues) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer peer(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(1));
  peer.client.pend({0});
  Barrier barrier("unblock: before resettling");
  Blocking blocking(peer.client, {1});
  ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_TRUE(holder.client.release({1}));
  ASSERT_TRUE(barrier.awaitArrival());
  EXPECT_EQ(memory.word(0).load(), 0u);
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_EQ(awaitGrants(peer.environment).size(), 1u);
}

TEST(Reclaim, KeepsTheAbandonedFlagForTheNextHolder) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer peer(memory);
  Peer dying(memory);
  ASSERT_TRUE(dying.client.take(0));
  ASSERT_TRUE(holder.client.take(1));
  peer.client.pend({0});
  dying.environment.end();
  // The peer was granted the abandoned stripe, but gives it back before it collects the grant.
  EXPECT_EQ(peer.client.sync({1}, {.timeout = 10}), Status::kTimedOut);
  const auto grants = awaitGrants(peer.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_TRUE(grants[0].abandoned);
}

TEST(Reclaim, LetsReadersPassAWriterWhoseThreadBlocks) {
  const UsualSlices slices;
  SharedMemory memory(2);
  Peer peer(memory);
  Peer other(memory);
  ASSERT_TRUE(peer.client.take(0, Mode::kShared));
  ASSERT_TRUE(other.client.take(1));
  // This acquisition waits for a hold of its own thread, and the reader waits behind it. The peer's thread then
  // blocks for a stripe that the reader's thread holds.
  const std::uint32_t pending = peer.client.pend({0});
  Blocking reader(other.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(other.client, 0, 2));
  Blocking blocking(peer.client, {1});
  EXPECT_EQ(reader.status(), Status::kGranted);
  EXPECT_TRUE(other.client.release({0}, Mode::kShared));
  EXPECT_TRUE(other.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(peer.client.release({0}, Mode::kShared));
  const auto grants = takeGrants(peer.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, pending);
}

}  // namespace stripelock::test
