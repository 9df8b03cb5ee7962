#include "core/async_waits.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

TEST(AsyncWaits, AreGrantedAtOnceWhatIsFree) {
  Three world;
  const auto started = world.waiter.client.acquire({0, 3}, {.fast = false});
  EXPECT_EQ(started.status, AsyncStart::kGranted);
  EXPECT_FALSE(started.abandoned);
  EXPECT_EQ(world.memory.word(3).load(), world.waiter.slot());
  EXPECT_FALSE(world.waiter.async().hasReady());
  EXPECT_TRUE(world.waiter.async().nextDeadline().isNever());
  EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
  EXPECT_EQ(world.memory.cell(kContendedCell), 0);
}

TEST(AsyncWaits, TellTheStripeThatOneAttemptCouldNotHave) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(2));
  const auto started = world.waiter.client.acquire({0, 2, 3}, {.timeout = 0});
  EXPECT_EQ(started.status, AsyncStart::kTimedOut);
  EXPECT_EQ(started.stripe, 2u);
  EXPECT_EQ(countHeld(world.holder.client.table()), 1u);
}

TEST(AsyncWaits, WakeTheirEventLoopWhenAnotherThreadReleases) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  const std::uint32_t id = world.waiter.client.pend({0});
  EXPECT_EQ(world.memory.cell(kWaitingCell), 1);
  EXPECT_TRUE(takeGrants(world.waiter.environment).empty());
  std::thread releasing([&] { EXPECT_TRUE(world.holder.client.release({0})); });
  const auto grants = awaitGrants(world.waiter.environment);
  releasing.join();
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
  EXPECT_FALSE(grants[0].abandoned);
  EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
  EXPECT_EQ(world.memory.cell(kContendedCell), 1);
  EXPECT_TRUE(world.waiter.client.release({0}));
}

TEST(AsyncWaits, CostOneWakeForManyGrants) {
  SharedMemory memory(64);
  Peer holder(memory);
  Peer waiter(memory);
  for (std::uint32_t stripe = 0; stripe < 64; ++stripe) {
    ASSERT_TRUE(holder.client.take(stripe));
    waiter.client.pend({stripe});
  }
  for (std::uint32_t stripe = 0; stripe < 64; ++stripe) EXPECT_TRUE(holder.client.release({stripe}));
  EXPECT_EQ(waiter.environment.wakes(), 1);
  AsyncWaits::Granted grants[40];
  EXPECT_EQ(waiter.async().take(grants, 40), 40u);
  EXPECT_TRUE(waiter.async().hasReady());
  EXPECT_EQ(waiter.async().take(grants, 40), 24u);
  EXPECT_FALSE(waiter.async().hasReady());
  // And one for the next burst.
  waiter.client.release({7});
  ASSERT_TRUE(holder.client.take(7));
  waiter.client.pend({7});
  EXPECT_TRUE(holder.client.release({7}));
  EXPECT_EQ(waiter.environment.wakes(), 2);
}

TEST(AsyncWaits, LoseNoWakeWhenGrantsAndTheEventLoopCoincide) {
  SharedMemory memory(2);
  Peer waiter(memory);
  std::thread thread([&] {
    Peer peer(memory);
    for (int round = 0; round < 2000; ++round) {
      const std::uint32_t stripe = static_cast<std::uint32_t>(round) % 2;
      ASSERT_EQ(peer.client.sync({stripe}), Status::kGranted);
      ASSERT_TRUE(peer.client.release({stripe}));
    }
  });
  // Sleeps until it is woken, so a lost wake would stop it.
  for (int round = 0; round < 2000; ++round) {
    const std::uint32_t stripe = static_cast<std::uint32_t>(round) % 2;
    if (waiter.client.acquire({stripe}).status == AsyncStart::kPending) {
      std::vector<AsyncWaits::Granted> grants;
      while (grants.empty()) {
        ASSERT_TRUE(waiter.environment.awaitWake(kStuck));
        grants = takeGrants(waiter.environment);
      }
    }
    ASSERT_TRUE(waiter.client.release({stripe}));
  }
  thread.join();
}

TEST(AsyncWaits, TakeRemainingStripesWithoutWakingTheirThread) {
  SharedMemory memory(100);
  Peer holder(memory);
  Peer waiter(memory);
  for (const std::uint32_t stripe : {10u, 50u, 90u}) ASSERT_TRUE(holder.client.take(stripe));
  waiter.client.pend({5, 10, 50, 60, 90, 99});
  makeHandOverDue(holder.client, 10);
  EXPECT_TRUE(holder.client.release({10}));
  EXPECT_EQ(memory.word(10).load(), waiter.slot());
  EXPECT_EQ(waitersOf(holder.client, 50), 1u);
  EXPECT_EQ(memory.word(60).load(), 0u);
  EXPECT_TRUE(holder.client.release({90}));
  EXPECT_EQ(memory.word(90).load(), 0u);
  EXPECT_EQ(waiter.environment.wakes(), 0);
  makeHandOverDue(holder.client, 50);
  EXPECT_TRUE(holder.client.release({50}));
  EXPECT_EQ(memory.word(99).load(), waiter.slot());
  EXPECT_EQ(waiter.environment.wakes(), 1);
  EXPECT_EQ(takeGrants(waiter.environment).size(), 1u);
  EXPECT_TRUE(waiter.client.release({5, 10, 50, 60, 90, 99}));
}

TEST(AsyncWaits, OfOneThreadAreGrantedByItsOwnRelease) {
  Three world;
  ASSERT_TRUE(world.waiter.client.take(0));
  const std::uint32_t id = world.waiter.client.pend({0});
  EXPECT_TRUE(world.waiter.client.release({0}));
  EXPECT_TRUE(world.waiter.async().hasReady());
  EXPECT_EQ(world.waiter.environment.wakes(), 0);
  const auto grants = takeGrants(world.waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
}

TEST(AsyncWaits, EndWithTheLockTheyBelongTo) {
  SharedMemory memory(2);
  SharedMemory otherMemory(2);
  Peer holder(memory);
  Client holderOther(holder.environment, otherMemory);
  Environment environment;
  Client staying(environment, otherMemory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(1));
  ASSERT_TRUE(holderOther.take(0));
  const std::uint32_t kept = staying.pend({0});
  {
    Client closing(environment, memory);
    closing.pend({0});
    closing.pend({1});
    // One is granted already when the lock is closed.
    EXPECT_TRUE(holder.client.release({0}));
  }
  EXPECT_EQ(memory.word(0).load(), 0u);
  EXPECT_EQ(memory.word(1).load(), holder.slot());
  EXPECT_EQ(memory.cell(kWaitingCell), 0);
  EXPECT_TRUE(holderOther.release({0}));
  const auto grants = awaitGrants(environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, kept);
}

TEST(AsyncWaits, KeepApartTenThousandThatWait) {
  SharedMemory memory(16);
  Peer holder(memory);
  Peer waiter(memory);
  constexpr std::uint32_t kCount = 10'000;
  for (std::uint32_t stripe = 0; stripe < 16; ++stripe) ASSERT_TRUE(holder.client.take(stripe));
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ids.push_back(waiter.client.pend({i % 16}, {.mode = Mode::kShared, .timeout = 1e6 + i}));
  }
  for (std::uint32_t i = 0; i < kCount; i += 2) ASSERT_TRUE(waiter.async().cancel(ids[i]));
  EXPECT_EQ(memory.cell(kWaitingCell), kCount / 2);
  for (std::uint32_t stripe = 0; stripe < 16; ++stripe) EXPECT_TRUE(holder.client.release({stripe}));
  std::vector<std::uint32_t> granted;
  for (const AsyncWaits::Granted& grant : awaitGrants(waiter.environment)) granted.push_back(grant.id);
  std::sort(granted.begin(), granted.end());
  std::vector<std::uint32_t> expected;
  for (std::uint32_t i = 1; i < kCount; i += 2) expected.push_back(ids[i]);
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(granted, expected);
  EXPECT_EQ(memory.word(1).load(), kShared + kCount / 16);
  EXPECT_TRUE(waiter.async().nextDeadline().isNever());
}

}  // namespace stripelock::test
