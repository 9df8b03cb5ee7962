// Details that must be exact and are easy to break: counts, flags, which waiter is granted, and which thread sleeps.

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "core/table/sync_wait.h"
#include "test/worlds.h"

namespace stripelock::test {

TEST_F(Exact, WhoWaitsBehindADesignatedOneLeavesReleasesOnTheFastPath) {
  Peer chosen(memory);
  Peer behind(memory);
  chosen.client.pend({0});
  designate();
  ASSERT_TRUE(holder.client.take(0));
  behind.client.pend({0});
  EXPECT_EQ(word(), holder.slot());
  EXPECT_TRUE(holder.client.giveBack(0));
  EXPECT_EQ(awaitGrants(chosen.environment).size(), 1u);
  EXPECT_EQ(word(), chosen.slot() | kQueued);
}

TEST_F(Exact, OnlyWhoWorksUnderAnAbandonedStripeIsTold) {
  Peer waiter(memory);
  Peer other(memory);
  waiter.client.pend({0});
  makeHandOverDue(waiter.client, 0);
  holder.environment.end();
  ASSERT_EQ(holderOf(word()), waiter.slot());
  // The waiter was granted the abandoned stripe, but gives it back before it collects the grant. So another thread
  // sees the death.
  waiter.environment.participant().block();
  EXPECT_TRUE(other.client.acquireSync({0}, {.timeout = 0}).abandoned);
  EXPECT_TRUE(other.client.release({0}));
  waiter.environment.participant().unblock();
  const auto grants = awaitGrants(waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_FALSE(grants[0].abandoned);
}

TEST_F(Exact, AThreadThatFindsItsStripeTakenTriesOnceAndSleeps) {
  const NoSlices slices;
  Peer waiter(memory);
  Blocking blocking(waiter.client, {0}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  putHandOverOff(holder.client, 0);
  {
    Barrier barrier("designated: before it tries");
    EXPECT_TRUE(holder.client.release({0}));
    ASSERT_TRUE(barrier.awaitArrival());
    ASSERT_TRUE(holder.client.take(0));
  }
  ASSERT_TRUE(eventually([&] { return word() == (holder.slot() | kQueued); }));
  const Passes passes("designated: before it tries");
  // Long enough for a thread that does not sleep to try again.
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_LE(Passes::count.load(), 1);
  handOver();
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST_F(Exact, AThreadThatTakesItsStripeAndWaitsForTheNextSleeps) {
  const NoSlices slices;
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(1));
  const Passes passes("designated: before it tries");
  Blocking blocking(waiter.client, {0, 1}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  designate();
  ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(Passes::count.load(), 1);
  makeHandOverDue(holder.client, 1);
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST_F(Exact, AWaiterThatWasReadyBesideAnotherIsReadyAloneTheNextTime) {
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(1));
  const std::uint32_t id = waiter.client.pend({0});
  waiter.client.pend({1});
  for (const std::uint32_t stripe : {0u, 1u}) {
    putHandOverOff(holder.client, stripe);
    EXPECT_TRUE(holder.client.release({stripe}));
  }
  ASSERT_TRUE(holder.client.take(0));
  // The first acquisition keeps waiting; the second was granted.
  ASSERT_EQ(takeGrants(waiter.environment).size(), 1u);
  EXPECT_TRUE(waiter.client.release({1}));
  designate();
  const auto grants = takeGrants(waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
  EXPECT_FALSE(waiter.async().hasReady());
}

TEST_F(Exact, GrantsThatWereNotTakenYetAreReady) {
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(1));
  for (const std::uint32_t stripe : {0u, 1u}) waiter.client.pend({stripe});
  for (const std::uint32_t stripe : {0u, 1u}) EXPECT_TRUE(holder.client.release({stripe}));
  AsyncWaits::Granted grant{};
  ASSERT_EQ(waiter.async().take(&grant, 1), 1u);
  EXPECT_TRUE(waiter.async().hasReady());
  ASSERT_EQ(waiter.async().take(&grant, 1), 1u);
  EXPECT_FALSE(waiter.async().hasReady());
}

TEST_F(Exact, AGrantInTheMomentOfATimeoutIsAGrant) {
  Peer waiter(memory);
  Barrier barrier("wait: before it times out");
  Blocking blocking(waiter.client, {0}, {.timeout = 1});
  ASSERT_TRUE(barrier.awaitArrival());
  handOver();
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(waiter.client.release({0}));
}

TEST_F(Exact, AGrantInTheMomentOfAnInterruptIsGivenBack) {
  const UsualSlices slices;
  Peer waiter(memory);
  const auto requested = [](void* client) {
    auto& holding = *static_cast<Client*>(client);
    makeHandOverDue(holding, 0);
    holding.release({0});
    return true;
  };
  const Interrupt interrupt{.requested = requested, .data = &holder.client};
  EXPECT_EQ(waiter.client.acquireSync({0}, {.timeout = kStuck}, interrupt).status, Status::kInterrupted);
  EXPECT_EQ(word(), 0u);
}

TEST_F(Exact, AGrantAfterTheFirstSliceIsGivenBackByAThreadThatIsInterruptedMeanwhile) {
  const UsualSlices slices;
  Peer waiter(memory);
  struct Host {
    Client& holder;
    int asked = 0;
  } host{holder.client};
  const auto requested = [](void* data) {
    auto& [holding, asked] = *static_cast<Host*>(data);
    // The first call is at the end of a slice. It reports no interrupt, and then the waiter is granted the stripe.
    if (++asked > 1) return true;
    makeHandOverDue(holding, 0);
    holding.release({0});
    return false;
  };
  const Interrupt interrupt{.requested = requested, .data = &host};
  EXPECT_EQ(waiter.client.acquireSync({0}, {.timeout = kStuck}, interrupt).status, Status::kInterrupted);
  EXPECT_EQ(host.asked, 2);
  EXPECT_EQ(word(), 0u);
}

TEST_F(Exact, AGrantWithinTheFirstSliceReturnsWithoutAskingAboutTheScript) {
  const NoSlices slices;
  Peer waiter(memory);
  std::atomic<int> asked{0};
  const auto requested = [](void* count) { return static_cast<std::atomic<int>*>(count)->fetch_add(1) >= 0; };
  const Interrupt interrupt{.requested = requested, .data = &asked};
  Barrier barrier("wait: before parking");
  std::thread releaser([&] {
    barrier.awaitArrival();
    makeHandOverDue(holder.client, 0);
    holder.client.release({0});
    barrier.open();
  });
  EXPECT_EQ(waiter.client.acquireSync({0}, {.timeout = kStuck}, interrupt).status, Status::kGranted);
  releaser.join();
  EXPECT_EQ(asked.load(), 0);
  EXPECT_TRUE(waiter.client.release({0}));
}

TEST_F(Exact, AThreadLooksAroundAtTheEndOfEachSlice) {
  const UsualSlices slices;
  Peer waiter(memory);
  std::atomic<int> asked{0};
  const auto requested = [](void* count) { return static_cast<std::atomic<int>*>(count)->fetch_add(1) == 3; };
  const Interrupt interrupt{.requested = requested, .data = &asked};
  EXPECT_EQ(waiter.client.acquireSync({0}, {.timeout = kStuck}, interrupt).status, Status::kInterrupted);
}

TEST_F(Exact, AGrantAsItsThreadBlocksIsNotMade) {
  const NoSlices slices;
  Peer peer(memory);
  Peer behind(memory);
  ASSERT_TRUE(holder.client.take(1));
  peer.client.pend({0});
  // This waiter has no deadline. At a deadline, it would revoke the blocked thread's grant.
  Blocking next(behind.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
  makeHandOverDue(holder.client, 0);
  Barrier barrier("block: before reclaiming");
  Blocking blocking(peer.client, {1});
  // This is `blocking`, because `next` passed this point before the barrier existed.
  ASSERT_TRUE(barrier.awaitArrival());
  EXPECT_TRUE(holder.client.release({0}));
  barrier.open();
  EXPECT_EQ(next.status(), Status::kGranted);
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST_F(Exact, MemoryIsForgottenThoughSomebodyWasRefusedIt) {
  SharedMemory forgotten(4);
  Registry& registry = Registry::instance();
  {
    Peer peer(forgotten);
    Environment other;
    EXPECT_EQ(registry.open(other.participant(), forgotten.data(), 3), nullptr);
  }
  Environment environment;
  Membership* const membership = registry.open(environment.participant(), forgotten.data(), 3);
  ASSERT_NE(membership, nullptr);
  registry.close(*membership);
}

TEST_F(Exact, AReaderThatIsLetInAtTheLastMomentHoldsOneShare) {
  Peer reader(memory);
  const Passes passes("proceed: before the next shard", &holder.client);
  EXPECT_EQ(reader.client.sync({0}, {.mode = Mode::kShared, .timeout = kStuck}), Status::kGranted);
  EXPECT_EQ(reader.client.membership().sharesOf(0), 1u);
  EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  EXPECT_EQ(word(), 0u);
}

TEST_F(Exact, AReaderOfTwoStripesThatIsGrantedBothHoldsAShareOfEach) {
  const NoSlices slices;
  Peer reader(memory);
  Blocking blocking(reader.client, {0, 1}, {.mode = Mode::kShared, .timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  for (const std::uint32_t stripe : {0u, 1u}) EXPECT_EQ(reader.client.membership().sharesOf(stripe), 1u);
  EXPECT_TRUE(reader.client.release({0, 1}, Mode::kShared));
}

TEST_F(Exact, AReaderThatOvertakesAnEventLoopHoldsOneShare) {
  Peer chosen(memory);
  Peer reader(memory);
  chosen.client.pend({0});
  Barrier barrier("wait: before it times out");
  Blocking blocking(reader.client, {0}, {.mode = Mode::kShared, .timeout = 1});
  ASSERT_TRUE(barrier.awaitArrival());
  designate();
  ASSERT_TRUE(isDesignated(chosen));
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_EQ(reader.client.membership().sharesOf(0), 1u);
  EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  EXPECT_EQ(awaitGrants(chosen.environment).size(), 1u);
}

TEST_F(Exact, AReaderPassesAWriterWhoseThreadBlocks) {
  Peer writer(memory);
  Peer reader(memory);
  ASSERT_TRUE(holder.client.take(1, Mode::kShared));
  writer.client.pend({1});
  writer.environment.participant().block();
  EXPECT_EQ(reader.client.sync({1}, {.mode = Mode::kShared, .timeout = kStuck, .fast = false}),
            Status::kGranted);
  writer.environment.participant().unblock();
  EXPECT_EQ(holderOf(word(1)), 2u);
}

TEST_F(Exact, AReaderMayEnterAgainPastAWriterOfItsOwnThread) {
  Peer peer(memory);
  ASSERT_TRUE(peer.client.take(1, Mode::kShared));
  peer.client.pend({1});
  EXPECT_EQ(peer.client.sync({1}, {.mode = Mode::kShared, .timeout = kStuck}), Status::kGranted);
  EXPECT_EQ(peer.client.membership().sharesOf(1), 2u);
}

TEST_F(Exact, AReaderOfTheReleasingThreadIsNotGrantedPastAWriter) {
  Peer remote(memory);
  remote.client.pend({0});
  holder.client.pend({0}, {.mode = Mode::kShared});
  designate();
  EXPECT_EQ(word(), 0u);
  EXPECT_TRUE(isDesignated(remote));
}

TEST_F(Exact, AReaderOfABlockedThreadIsNotLetInWithTheOthers) {
  SharedMemory memory(1);
  Peer writer(memory);
  Peer reader(memory);
  Peer blocked(memory);
  ASSERT_TRUE(writer.client.take(0));
  reader.client.pend({0}, {.mode = Mode::kShared});
  blocked.client.pend({0}, {.mode = Mode::kShared});
  blocked.environment.participant().block();
  makeHandOverDue(writer.client, 0);
  EXPECT_TRUE(writer.client.release({0}));
  EXPECT_EQ(memory.word(0).load(), kShared + 1);
  blocked.environment.participant().unblock();
  EXPECT_EQ(memory.word(0).load(), kShared + 2);
  EXPECT_EQ(takeGrants(blocked.environment).size(), 1u);
}

}  // namespace stripelock::test
