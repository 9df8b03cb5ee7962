// Stripes that were granted to an async waiter, but are not collected, because the waiter's thread computes. Other
// threads revoke these grants.

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

TEST_F(Revocation, LetsNobodyTimeOutForAGrantThatItsThreadHasNotTaken) {
  ASSERT_TRUE(holder.client.take(0));
  const std::uint32_t id = busy.client.pend({0});
  Barrier barrier("wait: before it times out");
  // The timeout is shorter than a slice and than any patience.
  Blocking blocking(next.client, {0}, {.timeout = 1});
  ASSERT_TRUE(barrier.awaitArrival());
  handOver();
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(next.client.release({0}));
  EXPECT_TRUE(busy.async().cancel(id));
  expectNothingLeft();
}

TEST_F(Revocation, GivesAWaiterTwiceTheTimeOnceItWasRevoked) {
  ASSERT_TRUE(holder.client.take(0));
  busy.client.pend({0});
  Nanoseconds patience = kRevokeAfter;
  for (int times = 0; times < 4; ++times, patience *= 2) {
    next.client.pend({0});
    handOver();
    const Nanoseconds granted = now();
    ASSERT_EQ(word() & kHolderMask, busy.slot());
    ASSERT_TRUE(eventually([&] { return revoke(); }));
    // The time of a grant comes from the coarse clock, which is up to one tick behind: at most ten milliseconds.
    EXPECT_GE(now() - granted, patience - 10'000'000);
    ASSERT_EQ(awaitGrants(next.environment).size(), 1u);
    EXPECT_TRUE(next.client.release({0}));
    ASSERT_EQ(holder.client.sync({0}), Status::kGranted);
    // The busy thread's event loop runs once, finds the stripe held, and is busy again.
    EXPECT_TRUE(takeGrants(busy.environment).empty());
  }
}

TEST_F(Revocation, PassesATurnOnAndThenPassesTheThreadOver) {
  const Patience none(0);
  ASSERT_TRUE(holder.client.take(0));
  busy.client.pend({0});
  busy.client.pend({0});
  next.client.pend({0});
  last.client.pend({0});
  designate();
  EXPECT_TRUE(revoke());
  // From now on, no thread has to wait for the busy thread: each release serves the next waiter.
  ASSERT_EQ(awaitGrants(next.environment).size(), 1u);
  EXPECT_TRUE(next.client.release({0}));
  ASSERT_EQ(awaitGrants(last.environment).size(), 1u);
  EXPECT_TRUE(last.client.release({0}));
  EXPECT_EQ(word(), 0u);
  // The busy thread was woken although its ready list was empty.
  ASSERT_EQ(awaitGrants(busy.environment).size(), 1u);
  EXPECT_TRUE(busy.client.release({0}));
  ASSERT_EQ(takeGrants(busy.environment).size(), 1u);
  EXPECT_TRUE(busy.client.release({0}));
  expectNothingLeft();
}

TEST_F(Revocation, LooksAfterAWaiterThatCameWhileItsThreadWasAway) {
  const Patience none(0);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(1));
  const std::uint32_t first = busy.client.pend({0});
  handOver();
  EXPECT_TRUE(revoke());
  const std::uint32_t second = busy.client.pend({1});
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(word(1), 0u);
  const auto grants = awaitGrants(busy.environment);
  ASSERT_EQ(grants.size(), 2u);
  EXPECT_EQ(grants[0].id + grants[1].id, first + second);
  EXPECT_TRUE(busy.client.release({0}));
  EXPECT_TRUE(busy.client.release({1}));
  expectNothingLeft();
}

TEST_F(Revocation, TakesBackAllStripesOfASet) {
  const Patience none(0);
  for (const std::uint32_t stripe : {0u, 1u, 2u}) ASSERT_TRUE(holder.client.take(stripe));
  busy.client.pend({0, 1, 2}, {.fast = false});
  for (const std::uint32_t stripe : {0u, 1u, 2u}) handOver(stripe);
  for (const std::uint32_t stripe : {0u, 1u, 2u}) ASSERT_EQ(word(stripe), busy.slot());
  const std::uint32_t other = next.client.pend({2});
  // Revokes the middle stripe, and with it the whole set.
  EXPECT_TRUE(revoke(1));
  const auto grants = awaitGrants(next.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, other);
  EXPECT_EQ(word(0), 0u);
  EXPECT_EQ(word(1), 0u);
  EXPECT_TRUE(next.client.release({2}));
  ASSERT_EQ(awaitGrants(busy.environment).size(), 1u);
  EXPECT_TRUE(busy.client.release({0, 1, 2}));
  expectNothingLeft();
}

TEST_F(Revocation, TakesBackWhatADesignatedWaiterHoldsOfItsSet) {
  const Patience none(0);
  ASSERT_TRUE(holder.client.take(1));
  // This acquisition holds the first stripe while it waits for the second.
  busy.client.pend({0, 1});
  next.client.pend({0});
  EXPECT_FALSE(revoke()) << "it waits, and its thread may well be idle";
  designate(1);
  EXPECT_TRUE(revoke());
  ASSERT_EQ(awaitGrants(next.environment).size(), 1u);
  EXPECT_EQ(word(1), 0u);
  EXPECT_TRUE(next.client.release({0}));
  ASSERT_EQ(awaitGrants(busy.environment).size(), 1u);
  EXPECT_TRUE(busy.client.release({0, 1}));
  expectNothingLeft();
}

TEST_F(Revocation, FindsAThreadThatIsAwayAgainByWhatItsSetsHold) {
  const Patience none(0);
  ASSERT_TRUE(holder.client.take(1));
  ASSERT_TRUE(holder.client.take(2));
  busy.client.pend({0, 1});
  busy.client.pend({2});
  handOver(2);
  EXPECT_TRUE(revoke(2));
  next.client.pend({0});
  // If the waiter were skipped because its thread is away, no thread could use the first stripe.
  designate(1);
  EXPECT_TRUE(revoke(0));
  ASSERT_EQ(awaitGrants(next.environment).size(), 1u);
  EXPECT_TRUE(next.client.release({0}));
  ASSERT_EQ(awaitGrants(busy.environment).size(), 2u);
  EXPECT_TRUE(busy.client.release({0, 1}));
  EXPECT_TRUE(busy.client.release({2}));
  expectNothingLeft();
}

TEST_F(Revocation, GivesAWriterWhatReadersHaveNotTaken) {
  const Patience none(0);
  ASSERT_TRUE(holder.client.take(0));
  busy.client.pend({0}, {.mode = Mode::kShared});
  busy.client.pend({0}, {.mode = Mode::kShared});
  last.client.pend({0}, {.mode = Mode::kShared});
  next.client.pend({0});
  handOver();
  ASSERT_EQ(word(), (kShared + 3) | kQueued);
  EXPECT_TRUE(revoke());
  ASSERT_EQ(awaitGrants(next.environment).size(), 1u);
  EXPECT_TRUE(next.client.release({0}));
  EXPECT_EQ(awaitGrants(busy.environment).size(), 2u);
  EXPECT_EQ(awaitGrants(last.environment).size(), 1u);
  EXPECT_TRUE(last.client.release({0}, Mode::kShared));
  EXPECT_TRUE(busy.client.release({0}, Mode::kShared));
  EXPECT_TRUE(busy.client.release({0}, Mode::kShared));
  expectNothingLeft();
}

TEST_F(Revocation, LeavesWhatItsThreadHasTakenOrHolds) {
  const Patience none(0);
  ASSERT_TRUE(holder.client.take(0));
  busy.client.pend({0});
  handOver();
  ASSERT_EQ(takeGrants(busy.environment).size(), 1u);
  EXPECT_FALSE(revoke());
  EXPECT_EQ(word(), busy.slot());
  // The same holds while another grant to the same thread is uncollected.
  ASSERT_TRUE(holder.client.take(1));
  busy.client.pend({1});
  handOver(1);
  EXPECT_FALSE(revoke());
  EXPECT_EQ(word(), busy.slot());
  EXPECT_TRUE(busy.client.release({0}));
  ASSERT_EQ(takeGrants(busy.environment).size(), 1u);
  EXPECT_TRUE(busy.client.release({1}));
  expectNothingLeft();
}

TEST_F(Revocation, KeepsTheAbandonedFlagForTheNextHolder) {
  const Patience none(0);
  ASSERT_TRUE(holder.client.take(0));
  busy.client.pend({0});
  next.client.pend({0});
  makeHandOverDue(last.client, 0);
  holder.environment.end();
  ASSERT_EQ(word() & kHolderMask, busy.slot());
  EXPECT_TRUE(revokeIdle(last.client.table(), 0, last.environment.participant(), false));
  auto grants = awaitGrants(next.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_TRUE(grants[0].abandoned);
  EXPECT_TRUE(next.client.release({0}));
  grants = awaitGrants(busy.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_FALSE(grants[0].abandoned) << "the one before has seen to it";
}

TEST_F(Revocation, IsDoneInEachLockThatAnEventLoopWaitsFor) {
  const Patience none(0);
  SharedMemory second(1);
  Client holding(holder.environment, second);
  Client idle(busy.environment, second);
  Client waiting(next.environment, second);
  // Pending acquisitions of the same stripe of two locks, one right after the other.
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holding.take(0));
  busy.client.pend({0});
  idle.pend({0});
  next.client.pend({0});
  waiting.pend({0});
  handOver();
  makeHandOverDue(holding, 0);
  EXPECT_TRUE(holding.release({0}));
  next.async().revokeIdleGrants();
  EXPECT_EQ(takeGrants(next.environment).size(), 2u);
}

TEST_F(Revocation, GrantsAnAsyncWaiterWhoseTimeIsUpWhatOthersHaveNotTaken) {
  for (const bool handedOver : {false, true}) {
    Idle world;
    ASSERT_TRUE(world.holder.client.take(0));
    world.busy.client.pend({0});
    const std::uint32_t id = world.next.client.pend({0}, {.timeout = 1});
    if (handedOver) {
      world.handOver();
    } else {
      world.designate();
    }
    ASSERT_TRUE(eventually([&] { return world.next.async().nextDeadline().passedAt(now()); }));
    EXPECT_TRUE(takeExpired(world.next.environment).empty());
    const auto grants = takeGrants(world.next.environment);
    ASSERT_EQ(grants.size(), 1u);
    EXPECT_EQ(grants[0].id, id);
    EXPECT_TRUE(world.next.client.release({0}));
    ASSERT_EQ(awaitGrants(world.busy.environment).size(), 1u);
    EXPECT_TRUE(world.busy.client.release({0}));
    world.expectNothingLeft();
  }
}

TEST_F(Revocation, LetsAnAsyncWaiterWhoseTimeIsUpHaveAllOfASetOrNothing) {
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(1));
  const std::uint32_t first = busy.client.pend({0});
  const std::uint32_t id = next.client.pend({0, 1}, {.timeout = 1});
  designate();
  ASSERT_TRUE(eventually([&] { return next.async().nextDeadline().passedAt(now()); }));
  // The waiter gets the turn at the first stripe, and then finds the second stripe held.
  EXPECT_TRUE(takeExpired(next.environment).empty());
  EXPECT_TRUE(takeGrants(next.environment).empty());
  const auto expired = takeExpired(next.environment);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].id, id);
  EXPECT_EQ(expired[0].stripe, 1u);
  EXPECT_EQ(word(), 0u);
  EXPECT_TRUE(holder.client.release({1}));
  const auto grants = awaitGrants(busy.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, first);
  EXPECT_TRUE(busy.client.release({0}));
  expectNothingLeft();
}

}  // namespace stripelock::test
