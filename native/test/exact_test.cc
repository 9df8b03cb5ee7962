// What holds to the letter, and is easy to lose: counts, flags, who is granted, and who sleeps.

#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "core/sync_wait.h"
#include "test/support.h"

namespace stripelock::test {

namespace {

bool isDesignated(Client& client, std::uint32_t stripe, const Peer& peer) {
  const Lock lock(client.table().shardOf(stripe));
  const Waiter* const waiter = client.table().queueOf(stripe).designated.load();
  return waiter && waiter->owner->slot() == peer.slot();
}

// How often threads pass one point, and what they do there the first time.
struct Passes {
  static inline const char* counted = nullptr;
  static inline std::atomic<int> count{0};
  static inline Client* gives = nullptr;

  explicit Passes(const char* point, Client* giving = nullptr) {
    counted = point;
    gives = giving;
    count.store(0);
    onSeam([](const char* passed) {
      if (std::strcmp(passed, counted) == 0 && count.fetch_add(1) == 0 && gives) gives->giveBack(0);
    });
  }
  ~Passes() { onSeam(nullptr); }
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;
};

}  // namespace

TEST(Exact, AReaderThatIsLetInAtTheLastMomentHoldsOneShare) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer reader(memory);
  ASSERT_TRUE(holder.client.take(0));
  const Passes passes("proceed: before the next shard", &holder.client);
  EXPECT_EQ(reader.client.sync({0}, {.mode = Mode::kShared, .timeout = kStuck}), Status::kGranted);
  EXPECT_EQ(reader.client.membership().sharesOf(0), 1u);
  EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  EXPECT_EQ(memory.word(0).load(), 0u);
}

TEST(Exact, AReaderOfTwoStripesThatIsGrantedBothHoldsAShareOfEach) {
  const NoSlices slices;
  SharedMemory memory(2);
  Peer holder(memory);
  Peer reader(memory);
  ASSERT_TRUE(holder.client.take(0));
  Blocking blocking(reader.client, {0, 1}, {.mode = Mode::kShared, .timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  for (const std::uint32_t stripe : {0u, 1u}) EXPECT_EQ(reader.client.membership().sharesOf(stripe), 1u);
  EXPECT_TRUE(reader.client.release({0, 1}, Mode::kShared));
}

TEST(Exact, AReaderThatOvertakesAnEventLoopHoldsOneShare) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer chosen(memory);
  Peer reader(memory);
  ASSERT_TRUE(holder.client.take(0));
  chosen.client.pend({0});
  Barrier barrier("wait: before it times out");
  Blocking blocking(reader.client, {0}, {.mode = Mode::kShared, .timeout = 1});
  ASSERT_TRUE(barrier.awaitArrival());
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_TRUE(isDesignated(holder.client, 0, chosen));
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_EQ(reader.client.membership().sharesOf(0), 1u);
  EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  EXPECT_EQ(awaitGrants(chosen.environment).size(), 1u);
}

TEST(Exact, AReaderPassesAWriterWhoseThreadBlocks) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer writer(memory);
  Peer reader(memory);
  ASSERT_TRUE(holder.client.take(0, Mode::kShared));
  writer.client.pend({0});
  writer.environment.participant().block();
  EXPECT_EQ(reader.client.sync({0}, {.mode = Mode::kShared, .timeout = kStuck, .fast = false}),
            Status::kGranted);
  writer.environment.participant().unblock();
  EXPECT_EQ(holderOf(memory.word(0).load()), 2u);
}

TEST(Exact, AReaderMayEnterAgainPastAWriterOfItsOwnThread) {
  SharedMemory memory(1);
  Peer peer(memory);
  ASSERT_TRUE(peer.client.take(0, Mode::kShared));
  peer.client.pend({0});
  EXPECT_EQ(peer.client.sync({0}, {.mode = Mode::kShared, .timeout = kStuck}), Status::kGranted);
  EXPECT_EQ(peer.client.membership().sharesOf(0), 2u);
}

TEST(Exact, AReaderOfTheReleasingThreadIsNotGrantedPastAWriter) {
  SharedMemory memory(1);
  Peer local(memory);
  Peer remote(memory);
  ASSERT_TRUE(local.client.take(0));
  remote.client.pend({0});
  local.client.pend({0}, {.mode = Mode::kShared});
  putHandOverOff(local.client, 0);
  EXPECT_TRUE(local.client.release({0}));
  EXPECT_EQ(memory.word(0).load(), 0u);
  EXPECT_TRUE(isDesignated(local.client, 0, remote));
}

TEST(Exact, WhoWaitsBehindADesignatedOneLeavesReleasesOnTheFastPath) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer chosen(memory);
  Peer behind(memory);
  ASSERT_TRUE(holder.client.take(0));
  chosen.client.pend({0});
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_TRUE(holder.client.take(0));
  behind.client.pend({0});
  EXPECT_EQ(memory.word(0).load(), holder.slot());
  EXPECT_TRUE(holder.client.giveBack(0));
  EXPECT_EQ(awaitGrants(chosen.environment).size(), 1u);
  EXPECT_EQ(memory.word(0).load(), chosen.slot() | kQueued);
}

TEST(Exact, OnlyWhoWorksUnderAnAbandonedStripeIsTold) {
  SharedMemory memory(1);
  Peer dying(memory);
  Peer waiter(memory);
  Peer other(memory);
  ASSERT_TRUE(dying.client.take(0));
  waiter.client.pend({0});
  makeHandOverDue(waiter.client, 0);
  dying.environment.end();
  ASSERT_EQ(holderOf(memory.word(0).load()), waiter.slot());
  // It was told, but gives the stripe back before it knows. Another one is told, and sees to it.
  waiter.environment.participant().block();
  EXPECT_TRUE(other.client.acquireSync({0}, {.timeout = 0}).abandoned);
  EXPECT_TRUE(other.client.release({0}));
  waiter.environment.participant().unblock();
  const auto grants = awaitGrants(waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_FALSE(grants[0].abandoned);
}

TEST(Exact, AThreadThatFindsItsStripeTakenTriesOnceAndSleeps) {
  const NoSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  Blocking blocking(waiter.client, {0}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  putHandOverOff(holder.client, 0);
  {
    Barrier barrier("designated: before it tries");
    EXPECT_TRUE(holder.client.release({0}));
    ASSERT_TRUE(barrier.awaitArrival());
    ASSERT_TRUE(holder.client.take(0));
  }
  ASSERT_TRUE(eventually([&] { return memory.word(0).load() == (holder.slot() | kQueued); }));
  const Passes passes("designated: before it tries");
  // Longer than one that does not sleep needs for the next try.
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_LE(Passes::count.load(), 1);
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST(Exact, AThreadThatTakesItsStripeAndWaitsForTheNextSleeps) {
  const NoSlices slices;
  SharedMemory memory(2);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(1));
  const Passes passes("designated: before it tries");
  Blocking blocking(waiter.client, {0, 1}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(Passes::count.load(), 1);
  makeHandOverDue(holder.client, 1);
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST(Exact, AWaiterThatWasReadyBesideAnotherIsReadyAloneTheNextTime) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer waiter(memory);
  for (const std::uint32_t stripe : {0u, 1u}) ASSERT_TRUE(holder.client.take(stripe));
  const std::uint32_t id = waiter.client.pend({0});
  waiter.client.pend({1});
  for (const std::uint32_t stripe : {0u, 1u}) {
    putHandOverOff(holder.client, stripe);
    EXPECT_TRUE(holder.client.release({stripe}));
  }
  ASSERT_TRUE(holder.client.take(0));
  // The first waits on, and the second is gone.
  ASSERT_EQ(takeGrants(waiter.environment).size(), 1u);
  EXPECT_TRUE(waiter.client.release({1}));
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  const auto grants = takeGrants(waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
  EXPECT_FALSE(waiter.async().hasReady());
}

TEST(Exact, GrantsThatWereNotTakenYetAreReady) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer waiter(memory);
  for (const std::uint32_t stripe : {0u, 1u}) ASSERT_TRUE(holder.client.take(stripe));
  for (const std::uint32_t stripe : {0u, 1u}) waiter.client.pend({stripe});
  for (const std::uint32_t stripe : {0u, 1u}) EXPECT_TRUE(holder.client.release({stripe}));
  AsyncWaits::Granted grant{};
  ASSERT_EQ(waiter.async().take(&grant, 1), 1u);
  EXPECT_TRUE(waiter.async().hasReady());
  ASSERT_EQ(waiter.async().take(&grant, 1), 1u);
  EXPECT_FALSE(waiter.async().hasReady());
}

TEST(Exact, AGrantInTheMomentOfATimeoutIsAGrant) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  Barrier barrier("wait: before it times out");
  Blocking blocking(waiter.client, {0}, {.timeout = 1});
  ASSERT_TRUE(barrier.awaitArrival());
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(waiter.client.release({0}));
}

TEST(Exact, AGrantInTheMomentOfAnInterruptIsGivenBack) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  const auto requested = [](void* client) {
    auto& holding = *static_cast<Client*>(client);
    makeHandOverDue(holding, 0);
    holding.release({0});
    return true;
  };
  const Interrupt interrupt{.requested = requested, .data = &holder.client};
  EXPECT_EQ(waiter.client.acquireSync({0}, {.timeout = kStuck}, interrupt).status, Status::kInterrupted);
  EXPECT_EQ(memory.word(0).load(), 0u);
}

TEST(Exact, AGrantAfterTheFirstSliceIsGivenBackByAThreadThatIsInterruptedMeanwhile) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  struct Host {
    Client& holder;
    int asked = 0;
  } host{holder.client};
  const auto requested = [](void* data) {
    auto& [holding, asked] = *static_cast<Host*>(data);
    // The first question is the one at the end of the slice: no interruption yet, and then the grant.
    if (++asked > 1) return true;
    makeHandOverDue(holding, 0);
    holding.release({0});
    return false;
  };
  const Interrupt interrupt{.requested = requested, .data = &host};
  EXPECT_EQ(waiter.client.acquireSync({0}, {.timeout = kStuck}, interrupt).status, Status::kInterrupted);
  EXPECT_EQ(host.asked, 2);
  EXPECT_EQ(memory.word(0).load(), 0u);
}

TEST(Exact, AGrantWithinTheFirstSliceReturnsWithoutAskingAboutTheScript) {
  const NoSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
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

TEST(Exact, AThreadLooksAroundAtTheEndOfEachSlice) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  std::atomic<int> asked{0};
  const auto requested = [](void* count) { return static_cast<std::atomic<int>*>(count)->fetch_add(1) == 3; };
  const Interrupt interrupt{.requested = requested, .data = &asked};
  EXPECT_EQ(waiter.client.acquireSync({0}, {.timeout = kStuck}, interrupt).status, Status::kInterrupted);
}

TEST(Exact, AGrantAsItsThreadBlocksIsNotMade) {
  const NoSlices slices;
  SharedMemory memory(2);
  Peer holder(memory);
  Peer peer(memory);
  Peer behind(memory);
  for (const std::uint32_t stripe : {0u, 1u}) ASSERT_TRUE(holder.client.take(stripe));
  peer.client.pend({0});
  Blocking next(behind.client, {0}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
  makeHandOverDue(holder.client, 0);
  Barrier barrier("block: before reclaiming");
  Blocking blocking(peer.client, {1});
  // The behind one passed here before.
  ASSERT_TRUE(barrier.awaitArrival());
  EXPECT_TRUE(holder.client.release({0}));
  barrier.open();
  EXPECT_EQ(next.status(), Status::kGranted);
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST(Exact, MemoryIsForgottenThoughSomebodyWasRefusedIt) {
  SharedMemory memory(4);
  Registry& registry = Registry::instance();
  {
    Peer peer(memory);
    Environment other;
    EXPECT_EQ(registry.open(other.participant(), memory.data(), 3), nullptr);
  }
  Environment environment;
  Membership* const membership = registry.open(environment.participant(), memory.data(), 3);
  ASSERT_NE(membership, nullptr);
  registry.close(*membership);
}

}  // namespace stripelock::test
