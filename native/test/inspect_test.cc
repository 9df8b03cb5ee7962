#include "core/inspect.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

TEST(Inspect, ShowsNothingOfALockAtRest) {
  SharedMemory memory(100);
  Peer peer(memory);
  EXPECT_TRUE(inspect(peer.client.table()).empty());
  ASSERT_TRUE(peer.client.take(99));
  EXPECT_TRUE(peer.client.release({99}));
  EXPECT_TRUE(inspect(peer.client.table()).empty());
}

TEST(Inspect, ShowsHoldersAndWaitersOfEveryThreadInOrder) {
  SharedMemory memory(300);
  Peer one(memory);
  Peer other(memory);
  Peer blocked(memory);
  ASSERT_TRUE(one.client.take(299));
  ASSERT_TRUE(one.client.take(4, Mode::kShared));
  ASSERT_TRUE(other.client.take(4, Mode::kShared));
  ASSERT_TRUE(other.client.take(4, Mode::kShared));
  other.client.pend({299}, {.mode = Mode::kShared});
  Blocking blocking(blocked.client, {299});
  ASSERT_TRUE(awaitWaiters(one.client, 299, 2));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));

  const std::vector<StripeInfo> stripes = inspect(one.client.table());
  ASSERT_EQ(stripes.size(), 2u);
  EXPECT_EQ(stripes[0].stripe, 4u);
  EXPECT_EQ(stripes[0].word, kShared + 3);
  EXPECT_EQ(stripes[0].holders, (std::vector{one.environment.threadId(), other.environment.threadId()}));
  EXPECT_TRUE(stripes[0].waiters.empty());

  EXPECT_EQ(stripes[1].stripe, 299u);
  EXPECT_EQ(stripes[1].word, one.slot() | kQueued);
  EXPECT_EQ(stripes[1].holders, std::vector{one.environment.threadId()});
  ASSERT_EQ(stripes[1].waiters.size(), 2u);
  const StripeInfo::Waiting& first = stripes[1].waiters[0];
  EXPECT_EQ(first.threadId, other.environment.threadId());
  EXPECT_TRUE(first.async && first.mode == Mode::kShared);
  const StripeInfo::Waiting& second = stripes[1].waiters[1];
  EXPECT_EQ(second.threadId, blocked.environment.threadId());
  EXPECT_FALSE(second.async || second.mode == Mode::kShared);
  EXPECT_GE(first.milliseconds, second.milliseconds);
  EXPECT_GE(second.milliseconds, 1);

  EXPECT_EQ(holdersOf(one.client.table(), 299), std::vector{one.environment.threadId()});
  EXPECT_EQ(countHeld(one.client.table()), 2u);
  EXPECT_TRUE(one.client.release({299}));
  EXPECT_EQ(takeGrants(other.environment).size(), 1u);
  EXPECT_TRUE(other.client.release({299}, Mode::kShared));
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST(Inspect, MayBeCalledWhileEverythingMoves) {
  SharedMemory memory(3);
  Peer watcher(memory);
  std::atomic<int> active{3};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (std::uint32_t round = 0; round < 600; ++round) {
        Peer peer(memory);
        const Mode mode = sharedIf((round + i) % 2 == 0);
        ASSERT_EQ(peer.client.sync({0, 1, 2}, {.mode = mode}), Status::kGranted);
        peer.client.release({0, 1, 2}, mode);
      }
      active.fetch_sub(1);
    });
  }
  while (active.load() != 0) {
    for (const StripeInfo& info : inspect(watcher.client.table())) {
      ASSERT_LT(info.stripe, 3u);
      ASSERT_LE(info.waiters.size(), 3u);
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(inspect(watcher.client.table()).empty());
}

}  // namespace stripelock::test
