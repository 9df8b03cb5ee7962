// Tests of an async waiter that was designated, while its event loop has not tried for the stripe yet.

#include <thread>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

// A stripe was released, and an async waiter was designated. The stripe stays free until that waiter's event loop
// runs.
struct Designated {
  explicit Designated(double timeout = kForever) {
    EXPECT_TRUE(holder.client.take(0));
    id = chosen.client.pend({0}, {.timeout = timeout});
  }
  void release() {
    putHandOverOff(holder.client, 0);
    EXPECT_TRUE(holder.client.release({0}));
    EXPECT_EQ(word(), 0u);
    EXPECT_TRUE(isDesignated(chosen));
  }
  std::uint32_t word() { return memory.word(0).load(); }
  bool isDesignated(Peer& peer) {
    const Lock lock(holder.client.table().shardOf(0));
    const Waiter* const waiter = holder.client.table().queueOf(0).designated.load();
    return waiter && waiter->owner == &peer.environment.participant();
  }
  bool nobodyIs() {
    const Lock lock(holder.client.table().shardOf(0));
    return holder.client.table().queueOf(0).designated.load() == nullptr;
  }

  SharedMemory memory{2};
  Peer holder{memory};
  Peer chosen{memory};
  Peer next{memory};
  std::uint32_t id = 0;
};

}  // namespace

TEST(Designated, IsSeenToWaitWithoutALock) {
  Designated world;
  Table& table = world.holder.client.table();
  EXPECT_TRUE(table.isAwaited(0));
  EXPECT_FALSE(table.isAwaited(1));
  world.release();
  EXPECT_TRUE(table.isAwaited(0));
  ASSERT_EQ(awaitGrants(world.chosen.environment).size(), 1u);
  EXPECT_FALSE(table.isAwaited(0));
  EXPECT_TRUE(world.chosen.client.release({0}));
  EXPECT_FALSE(table.isAwaited(0));
}

TEST(Designated, PassesItsTurnOnWhenItIsCancelled) {
  Designated world;
  const std::uint32_t next = world.next.client.pend({0});
  world.release();
  EXPECT_TRUE(world.chosen.async().cancel(world.id));
  EXPECT_TRUE(world.isDesignated(world.next));
  // The ready list still has the cancelled waiter, which must not be mistaken for a new one with the same id.
  EXPECT_EQ(world.chosen.client.acquire({0}, {.fast = false}).status, AsyncStart::kGranted);
  EXPECT_EQ(world.chosen.client.pend({0}), world.id);
  EXPECT_TRUE(takeGrants(world.chosen.environment).empty());
  EXPECT_FALSE(world.chosen.async().hasReady());
  EXPECT_TRUE(world.chosen.client.release({0}));
  const auto grants = awaitGrants(world.next.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, next);
  EXPECT_EQ(world.word(), world.next.slot() | kQueued);
}

TEST(Designated, PassesItsTurnOnWhenItsDeadlineComes) {
  Designated world(1);
  Blocking next(world.next.client, {0}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(world.holder.client, 0, 2));
  world.release();
  const Deadline deadline = world.chosen.async().nextDeadline();
  while (!deadline.passedAt(now())) std::this_thread::yield();
  const auto expired = takeExpired(world.chosen.environment);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].id, world.id);
  EXPECT_EQ(next.status(), Status::kGranted);
  EXPECT_TRUE(takeGrants(world.chosen.environment).empty());
  EXPECT_EQ(world.word(), world.next.slot());
  EXPECT_TRUE(world.nobodyIs());
  EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
}

TEST(Designated, PassesItsTurnOnWhenItsThreadEndsOrItsLockIsClosed) {
  for (const bool ends : {true, false}) {
    Designated world;
    world.next.client.pend({0});
    world.release();
    if (ends) {
      world.chosen.environment.end();
    } else {
      world.chosen.client.close();
      EXPECT_TRUE(takeGrants(world.chosen.environment).empty());
    }
    EXPECT_TRUE(world.isDesignated(world.next));
    EXPECT_EQ(awaitGrants(world.next.environment).size(), 1u);
    // The ended thread held nothing, so nothing was abandoned.
    EXPECT_EQ(world.word(), world.next.slot());
    EXPECT_EQ(world.memory.cell(kAbandonedCell), 0);
    EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
  }
}

TEST(Designated, PassesItsTurnOnWhenItsThreadBlocksAndKeepsItsPlace) {
  Designated world;
  ASSERT_TRUE(world.holder.client.take(1));
  world.next.client.pend({0});
  world.release();
  {
    Blocking blocking(world.chosen.client, {1}, {.timeout = kStuck});
    EXPECT_EQ(awaitGrants(world.next.environment).size(), 1u);
    EXPECT_EQ(holderOf(world.word()), world.next.slot());
    ASSERT_TRUE(awaitWaiters(world.holder.client, 0, 1));
    EXPECT_TRUE(world.holder.client.release({1}));
    EXPECT_EQ(blocking.status(), Status::kGranted);
  }
  EXPECT_TRUE(world.next.client.release({0}));
  const auto grants = awaitGrants(world.chosen.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, world.id);
}

TEST(Designated, PassesItsTurnOnWhenItWasChosenBeforeItsThreadWasSeenToBlock) {
  Designated world;
  ASSERT_TRUE(world.next.client.take(1));
  putHandOverOff(world.holder.client, 0);
  Barrier barrier("leave: before the word changes");
  std::thread releasing([&] { EXPECT_TRUE(world.holder.client.releaseSlow(0)); });
  ASSERT_TRUE(barrier.awaitArrival());
  Blocking blocking(world.chosen.client, {1}, {.timeout = kStuck});
  // By then the blocked thread has found its ready list empty, and waits.
  ASSERT_TRUE(eventually([&] { return world.memory.word(1).load() == (world.next.slot() | kQueued); }));
  barrier.open();
  releasing.join();
  ASSERT_TRUE(eventually([&] { return world.nobodyIs(); }));
  EXPECT_EQ(world.word(), 0u);
  EXPECT_TRUE(world.next.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_EQ(awaitGrants(world.chosen.environment).size(), 1u);
}

TEST(Designated, WaitsOnWhereItFindsTheStripeTakenAndGetsItByHandOver) {
  Designated world;
  world.release();
  ASSERT_TRUE(world.next.client.take(0));
  ASSERT_TRUE(world.chosen.environment.awaitWake(kStuck));
  EXPECT_TRUE(takeGrants(world.chosen.environment).empty());
  EXPECT_EQ(world.word(), world.next.slot() | kQueued);
  EXPECT_TRUE(world.nobodyIs());
  makeHandOverDue(world.holder.client, 0);
  EXPECT_TRUE(world.next.client.release({0}));
  EXPECT_EQ(world.word(), world.chosen.slot());
  const auto grants = awaitGrants(world.chosen.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, world.id);
}

TEST(Designated, IsOvertakenByABlockedThreadWhileItsEventLoopIsBusy) {
  const UsualSlices slices;
  Designated world;
  ASSERT_TRUE(world.holder.client.take(1));
  Blocking blocking(world.next.client, {0, 1}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(world.holder.client, 0, 2));
  world.release();
  // The blocked thread takes the first stripe, leaves its queue, and waits for the other stripe.
  ASSERT_TRUE(awaitWaiters(world.holder.client, 1, 1));
  EXPECT_EQ(world.word(), world.next.slot());
  EXPECT_EQ(waitersOf(world.holder.client, 0), 1u);
  EXPECT_TRUE(world.holder.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  // The overtaken waiter is still designated.
  EXPECT_TRUE(world.isDesignated(world.chosen));
  EXPECT_TRUE(world.next.client.release({0, 1}));
  EXPECT_EQ(awaitGrants(world.chosen.environment).size(), 1u);
  EXPECT_EQ(world.word(), world.chosen.slot());
}

TEST(Designated, DoesNotLetABlockedThreadTimeOutWhileTheStripeIsFree) {
  Designated world;
  Barrier barrier("wait: before it times out");
  // A timeout shorter than a slice.
  Blocking blocking(world.next.client, {0}, {.timeout = 1});
  ASSERT_TRUE(barrier.awaitArrival());
  world.release();
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(world.isDesignated(world.chosen));
}

}  // namespace stripelock::test
