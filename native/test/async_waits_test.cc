#include "core/table/async_waits.h"

#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

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

TEST(AsyncWaits, CountAsWaitingOnlyOnceTheyAreQueued) {
  static std::int64_t early;
  static SharedMemory* seen;
  Three world;
  early = 0;
  seen = &world.memory;
  ASSERT_TRUE(world.holder.client.take(0));
  onSeam([](const char* point) {
    if (std::strcmp(point, "link: before the word changes") == 0) early += seen->cell(kWaitingCell);
  });
  const std::uint32_t id = world.waiter.client.pend({0});
  onSeam(nullptr);
  EXPECT_EQ(early, 0);
  EXPECT_EQ(world.memory.cell(kWaitingCell), 1);
  EXPECT_TRUE(world.waiter.async().cancel(id));
  EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
}

TEST(AsyncWaits, AddUpIfTheyAreGrantedBeforeTheyCountAsWaiting) {
  static Client* holding;
  static bool handedOver;
  Three world;
  holding = &world.holder.client;
  handedOver = false;
  ASSERT_TRUE(holding->take(0));
  onSeam([](const char* point) {
    if (std::strcmp(point, "start: before it counts as waiting") != 0) return;
    makeHandOverDue(*holding, 0);
    handedOver = holding->release({0});
  });
  const std::uint32_t id = world.waiter.client.pend({0});
  onSeam(nullptr);
  EXPECT_TRUE(handedOver);
  const auto grants = awaitGrants(world.waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
  EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
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
  // The next burst sends another wake.
  waiter.client.release({7});
  ASSERT_TRUE(holder.client.take(7));
  waiter.client.pend({7});
  EXPECT_TRUE(holder.client.release({7}));
  EXPECT_EQ(waiter.environment.wakes(), 2);
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
    // One acquisition is already granted when the lock is closed.
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

TEST(AsyncWaits, DoNotExpireOnceTheyAreGranted) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  const std::uint32_t id = world.waiter.client.pend({0}, {.timeout = 1});
  makeHandOverDue(world.holder.client, 0);
  EXPECT_TRUE(world.holder.client.release({0}));
  const Deadline deadline = world.waiter.async().nextDeadline();
  while (!deadline.passedAt(now())) std::this_thread::yield();
  EXPECT_TRUE(takeExpired(world.waiter.environment).empty());
  const auto grants = takeGrants(world.waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
  EXPECT_TRUE(world.waiter.async().nextDeadline().isNever());
}

TEST(AsyncWaits, KeepTheirDeadlineWhenAGrantIsTakenBackAfterIt) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  ASSERT_TRUE(world.holder.client.take(1));
  const std::uint32_t granted = world.waiter.client.pend({0}, {.timeout = 1});
  const std::uint32_t other = world.waiter.client.pend({1}, {.timeout = 2});
  makeHandOverDue(world.holder.client, 0);
  EXPECT_TRUE(world.holder.client.release({0}));
  const Deadline last = Deadline::after(2);
  while (!last.passedAt(now())) std::this_thread::yield();
  // The granted acquisition has the earlier deadline. It must not keep the other one from expiring.
  auto expired = takeExpired(world.waiter.environment);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].id, other);
  world.waiter.environment.participant().block();
  ASSERT_TRUE(world.other.client.take(0));
  world.waiter.environment.participant().unblock();
  expired = takeExpired(world.waiter.environment);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].id, granted);
  EXPECT_TRUE(world.waiter.async().nextDeadline().isNever());
  EXPECT_TRUE(world.other.client.release({0}));
  EXPECT_TRUE(world.holder.client.release({1}));
}

TEST(AsyncWaits, AreForgottenWhenCancelledWhileTheyWait) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(2));
  const std::uint32_t id = world.waiter.client.pend({1, 2, 3}, {.timeout = 1000});
  EXPECT_EQ(world.memory.word(1).load(), world.waiter.slot());
  EXPECT_TRUE(world.waiter.async().cancel(id));
  EXPECT_EQ(world.memory.word(1).load(), 0u);
  EXPECT_EQ(world.memory.word(2).load(), world.holder.slot());
  EXPECT_EQ(waitersOf(world.holder.client, 2), 0u);
  EXPECT_TRUE(world.waiter.async().nextDeadline().isNever());
  EXPECT_FALSE(world.waiter.async().cancel(id));
  EXPECT_TRUE(world.holder.client.release({2}));
  EXPECT_FALSE(world.waiter.environment.awaitWake(0));
  EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
}

TEST(AsyncWaits, PassTheirStripesOnWhenCancelledAfterTheGrant) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  const std::uint32_t id = world.waiter.client.pend({0});
  const std::uint32_t next = world.other.client.pend({0});
  makeHandOverDue(world.holder.client, 0);
  EXPECT_TRUE(world.holder.client.release({0}));
  ASSERT_EQ(holderOf(world.memory.word(0).load()), world.waiter.slot());
  EXPECT_TRUE(world.waiter.async().cancel(id));
  EXPECT_FALSE(world.waiter.async().cancel(id));
  EXPECT_TRUE(takeGrants(world.waiter.environment).empty());
  const auto grants = awaitGrants(world.other.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, next);
  EXPECT_EQ(world.memory.word(0).load(), world.other.slot());
}

TEST(AsyncWaits, KnowNoIdThatTheyNeverGave) {
  Three world;
  EXPECT_FALSE(world.waiter.async().cancel(0));
  EXPECT_FALSE(world.waiter.async().cancel(0xffffffffu));
}

TEST(AsyncWaits, LetReadersPassWhenAWriterIsCancelled) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0, Mode::kShared));
  const std::uint32_t writer = world.waiter.client.pend({0});
  Blocking reader(world.other.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(world.holder.client, 0, 2));
  EXPECT_TRUE(world.waiter.async().cancel(writer));
  EXPECT_EQ(reader.status(), Status::kGranted);
}

TEST(AsyncWaits, GiveBackAGrantThatComesInTheMiddleOfACancellation) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  const std::uint32_t id = world.waiter.client.pend({0, 1});
  Barrier barrier("drop: before withdrawing");
  std::thread cancelling([&] { EXPECT_TRUE(world.waiter.async().cancel(id)); });
  ASSERT_TRUE(barrier.awaitArrival());
  makeHandOverDue(world.holder.client, 0);
  EXPECT_TRUE(world.holder.client.release({0}));
  EXPECT_EQ(world.memory.word(1).load(), world.waiter.slot());
  barrier.open();
  cancelling.join();
  EXPECT_EQ(countHeld(world.holder.client.table()), 0u);
  EXPECT_TRUE(takeGrants(world.waiter.environment).empty());
}

}  // namespace stripelock::test
