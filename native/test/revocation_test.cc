// Stripes that were granted to an async waiter whose thread computes and does not come for them: others take them back.

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "core/revocation.h"
#include "test/support.h"

namespace stripelock::test {

namespace {

// `busy` waits for stripes that `holder` has; its event loop does not turn unless the test makes it.
struct Idle {
  explicit Idle(std::uint32_t stripes = 3) : memory(stripes) {}

  std::uint32_t word(std::uint32_t stripe = 0) { return memory.word(stripe).load(); }
  void handOver(std::uint32_t stripe = 0) {
    makeHandOverDue(holder.client, stripe);
    EXPECT_TRUE(holder.client.release({stripe}));
  }
  void designate(std::uint32_t stripe = 0) {
    putHandOverOff(holder.client, stripe);
    EXPECT_TRUE(holder.client.release({stripe}));
    EXPECT_TRUE(isDesignated(busy, stripe));
  }
  bool isDesignated(Peer& peer, std::uint32_t stripe = 0) {
    const Lock lock(holder.client.table().shardOf(stripe));
    const Waiter* const waiter = holder.client.table().queueOf(stripe).designated.load();
    return waiter && waiter->owner == &peer.environment.participant();
  }
  bool revoke(std::uint32_t stripe = 0) {
    return revokeIdle(holder.client.table(), stripe, holder.environment.participant(), false);
  }
  void expectNothingLeft() {
    for (std::uint32_t stripe = 0; stripe < memory.stripes(); ++stripe) {
      EXPECT_EQ(word(stripe), 0u) << stripe;
      EXPECT_EQ(waitersOf(holder.client, stripe), 0u) << stripe;
    }
    EXPECT_EQ(memory.cell(kWaitingCell), 0);
    EXPECT_EQ(busy.environment.participant().undelivered(), 0u);
  }

  SharedMemory memory;
  Peer holder{memory};
  Peer busy{memory};
  Peer next{memory};
  Peer last{memory};
};

}  // namespace

TEST(Revocation, GivesABlockedThreadWhatWasHandedToOneThatDoesNotComeForIt) {
  const UsualSlices slices;
  Idle world;
  ASSERT_TRUE(world.holder.client.take(0));
  const std::uint32_t id = world.busy.client.pend({0});
  Blocking blocking(world.next.client, {0}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(world.holder.client, 0, 2));
  world.handOver();
  ASSERT_EQ(world.word() & kHolderMask, world.busy.slot());
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(world.next.client.release({0}));
  // It kept its place, and gets the stripe once its event loop turns.
  const auto grants = awaitGrants(world.busy.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
  EXPECT_TRUE(world.busy.client.release({0}));
  world.expectNothingLeft();
}

TEST(Revocation, LetsNobodyTimeOutForAGrantThatItsThreadHasNotTaken) {
  Idle world;
  ASSERT_TRUE(world.holder.client.take(0));
  const std::uint32_t id = world.busy.client.pend({0});
  Barrier barrier("wait: before it times out");
  // Shorter than a slice, and than anybody's patience.
  Blocking blocking(world.next.client, {0}, {.timeout = 1});
  ASSERT_TRUE(barrier.awaitArrival());
  world.handOver();
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(world.next.client.release({0}));
  EXPECT_TRUE(world.busy.async().cancel(id));
  world.expectNothingLeft();
}

TEST(Revocation, GivesAWaiterTwiceTheTimeOnceItWasRevoked) {
  Idle world;
  ASSERT_TRUE(world.holder.client.take(0));
  world.busy.client.pend({0});
  Nanoseconds patience = kRevokeAfter;
  for (int times = 0; times < 4; ++times, patience *= 2) {
    world.next.client.pend({0});
    world.handOver();
    const Nanoseconds granted = now();
    ASSERT_EQ(world.word() & kHolderMask, world.busy.slot());
    ASSERT_TRUE(eventually([&] { return world.revoke(); }));
    // Grants are timed by the system's coarse clock, which is behind by a tick, of ten milliseconds at most.
    EXPECT_GE(now() - granted, patience - 10'000'000);
    ASSERT_EQ(awaitGrants(world.next.environment).size(), 1u);
    EXPECT_TRUE(world.next.client.release({0}));
    ASSERT_EQ(world.holder.client.sync({0}), Status::kGranted);
    // The busy one's event loop turns, finds the stripe held, and is away again.
    EXPECT_TRUE(takeGrants(world.busy.environment).empty());
  }
}

TEST(Revocation, PassesATurnOnAndThenPassesTheThreadOver) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.holder.client.take(0));
  world.busy.client.pend({0});
  world.busy.client.pend({0});
  world.next.client.pend({0});
  world.last.client.pend({0});
  world.designate();
  EXPECT_TRUE(world.revoke());
  // Nobody waits for the busy one any more until it looks: each release goes on to the next.
  ASSERT_EQ(awaitGrants(world.next.environment).size(), 1u);
  EXPECT_TRUE(world.next.client.release({0}));
  ASSERT_EQ(awaitGrants(world.last.environment).size(), 1u);
  EXPECT_TRUE(world.last.client.release({0}));
  EXPECT_EQ(world.word(), 0u);
  // It was told to look, though nothing is ready for it.
  ASSERT_EQ(awaitGrants(world.busy.environment).size(), 1u);
  EXPECT_TRUE(world.busy.client.release({0}));
  ASSERT_EQ(takeGrants(world.busy.environment).size(), 1u);
  EXPECT_TRUE(world.busy.client.release({0}));
  world.expectNothingLeft();
}

TEST(Revocation, LooksAfterAWaiterThatCameWhileItsThreadWasAway) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.holder.client.take(0));
  ASSERT_TRUE(world.holder.client.take(1));
  const std::uint32_t first = world.busy.client.pend({0});
  world.handOver();
  EXPECT_TRUE(world.revoke());
  const std::uint32_t second = world.busy.client.pend({1});
  EXPECT_TRUE(world.holder.client.release({1}));
  EXPECT_EQ(world.word(1), 0u);
  const auto grants = awaitGrants(world.busy.environment);
  ASSERT_EQ(grants.size(), 2u);
  EXPECT_EQ(grants[0].id + grants[1].id, first + second);
  EXPECT_TRUE(world.busy.client.release({0}));
  EXPECT_TRUE(world.busy.client.release({1}));
  world.expectNothingLeft();
}

TEST(Revocation, TakesBackAllStripesOfASet) {
  Idle world;
  const Patience none(0);
  for (const std::uint32_t stripe : {0u, 1u, 2u}) ASSERT_TRUE(world.holder.client.take(stripe));
  world.busy.client.pend({0, 1, 2}, {.fast = false});
  for (const std::uint32_t stripe : {0u, 1u, 2u}) world.handOver(stripe);
  for (const std::uint32_t stripe : {0u, 1u, 2u}) ASSERT_EQ(world.word(stripe), world.busy.slot());
  const std::uint32_t other = world.next.client.pend({2});
  // For the middle one.
  EXPECT_TRUE(world.revoke(1));
  const auto grants = awaitGrants(world.next.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, other);
  EXPECT_EQ(world.word(0), 0u);
  EXPECT_EQ(world.word(1), 0u);
  EXPECT_TRUE(world.next.client.release({2}));
  ASSERT_EQ(awaitGrants(world.busy.environment).size(), 1u);
  EXPECT_TRUE(world.busy.client.release({0, 1, 2}));
  world.expectNothingLeft();
}

TEST(Revocation, TakesBackWhatADesignatedWaiterHoldsOfItsSet) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.holder.client.take(1));
  // Holds the first while it waits for the second.
  world.busy.client.pend({0, 1});
  world.next.client.pend({0});
  EXPECT_FALSE(world.revoke()) << "it waits, and its thread may well be idle";
  world.designate(1);
  EXPECT_TRUE(world.revoke());
  ASSERT_EQ(awaitGrants(world.next.environment).size(), 1u);
  EXPECT_EQ(world.word(1), 0u);
  EXPECT_TRUE(world.next.client.release({0}));
  ASSERT_EQ(awaitGrants(world.busy.environment).size(), 1u);
  EXPECT_TRUE(world.busy.client.release({0, 1}));
  world.expectNothingLeft();
}

TEST(Revocation, FindsAThreadThatIsAwayAgainByWhatItsSetsHold) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.holder.client.take(1));
  ASSERT_TRUE(world.holder.client.take(2));
  world.busy.client.pend({0, 1});
  world.busy.client.pend({2});
  world.handOver(2);
  EXPECT_TRUE(world.revoke(2));
  world.next.client.pend({0});
  // Passed over for it, the first stripe would stay with nobody.
  world.designate(1);
  EXPECT_TRUE(world.revoke(0));
  ASSERT_EQ(awaitGrants(world.next.environment).size(), 1u);
  EXPECT_TRUE(world.next.client.release({0}));
  ASSERT_EQ(awaitGrants(world.busy.environment).size(), 2u);
  EXPECT_TRUE(world.busy.client.release({0, 1}));
  EXPECT_TRUE(world.busy.client.release({2}));
  world.expectNothingLeft();
}

TEST(Revocation, GivesAWriterWhatReadersHaveNotTaken) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.holder.client.take(0));
  world.busy.client.pend({0}, {.mode = Mode::kShared});
  world.busy.client.pend({0}, {.mode = Mode::kShared});
  world.last.client.pend({0}, {.mode = Mode::kShared});
  world.next.client.pend({0});
  world.handOver();
  ASSERT_EQ(world.word(), (kShared + 3) | kQueued);
  EXPECT_TRUE(world.revoke());
  ASSERT_EQ(awaitGrants(world.next.environment).size(), 1u);
  EXPECT_TRUE(world.next.client.release({0}));
  EXPECT_EQ(awaitGrants(world.busy.environment).size(), 2u);
  EXPECT_EQ(awaitGrants(world.last.environment).size(), 1u);
  EXPECT_TRUE(world.last.client.release({0}, Mode::kShared));
  EXPECT_TRUE(world.busy.client.release({0}, Mode::kShared));
  EXPECT_TRUE(world.busy.client.release({0}, Mode::kShared));
  world.expectNothingLeft();
}

TEST(Revocation, LeavesWhatItsThreadHasTakenOrHolds) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.holder.client.take(0));
  world.busy.client.pend({0});
  world.handOver();
  ASSERT_EQ(takeGrants(world.busy.environment).size(), 1u);
  EXPECT_FALSE(world.revoke());
  EXPECT_EQ(world.word(), world.busy.slot());
  // With another grant under way.
  ASSERT_TRUE(world.holder.client.take(1));
  world.busy.client.pend({1});
  world.handOver(1);
  EXPECT_FALSE(world.revoke());
  EXPECT_EQ(world.word(), world.busy.slot());
  EXPECT_TRUE(world.busy.client.release({0}));
  ASSERT_EQ(takeGrants(world.busy.environment).size(), 1u);
  EXPECT_TRUE(world.busy.client.release({1}));
  world.expectNothingLeft();
}

TEST(Revocation, KeepsTheAbandonedFlagForTheNextHolder) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.holder.client.take(0));
  world.busy.client.pend({0});
  world.next.client.pend({0});
  makeHandOverDue(world.last.client, 0);
  world.holder.environment.end();
  ASSERT_EQ(world.word() & kHolderMask, world.busy.slot());
  EXPECT_TRUE(revokeIdle(world.last.client.table(), 0, world.last.environment.participant(), false));
  auto grants = awaitGrants(world.next.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_TRUE(grants[0].abandoned);
  EXPECT_TRUE(world.next.client.release({0}));
  grants = awaitGrants(world.busy.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_FALSE(grants[0].abandoned) << "the one before has seen to it";
}

TEST(Revocation, IsDoneByTheEventLoopsOfOtherThreads) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.holder.client.take(0));
  world.busy.client.pend({0});
  world.next.client.pend({0});
  world.handOver();
  EXPECT_FALSE(world.next.environment.awaitWake(0));
  world.next.async().lookForIdle();
  ASSERT_EQ(awaitGrants(world.next.environment).size(), 1u);
  EXPECT_TRUE(world.next.client.release({0}));
  ASSERT_EQ(awaitGrants(world.busy.environment).size(), 1u);
  EXPECT_TRUE(world.busy.client.release({0}));
  world.expectNothingLeft();
}

TEST(Revocation, GrantsAnAsyncWaiterWhoseTimeIsUpWhatOthersHaveNotTaken) {
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

TEST(Revocation, LetsAnAsyncWaiterWhoseTimeIsUpHaveAllOfASetOrNothing) {
  Idle world;
  ASSERT_TRUE(world.holder.client.take(0));
  ASSERT_TRUE(world.holder.client.take(1));
  const std::uint32_t first = world.busy.client.pend({0});
  const std::uint32_t id = world.next.client.pend({0, 1}, {.timeout = 1});
  world.designate();
  ASSERT_TRUE(eventually([&] { return world.next.async().nextDeadline().passedAt(now()); }));
  const auto expired = takeExpired(world.next.environment);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].id, id);
  EXPECT_EQ(expired[0].stripe, 1u);
  EXPECT_EQ(world.word(), 0u);
  EXPECT_TRUE(world.holder.client.release({1}));
  const auto grants = awaitGrants(world.busy.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, first);
  EXPECT_TRUE(world.busy.client.release({0}));
  world.expectNothingLeft();
}

namespace {

// What the thread of a waiter does while that is being revoked.
enum class Meanwhile { kCancels, kExpires, kTakes, kBlocks, kEnds, kCloses };

void revokeMeanwhile(Meanwhile meanwhile, const char* point, bool designated) {
  Idle world;
  ASSERT_TRUE(world.holder.client.take(0));
  ASSERT_TRUE(world.holder.client.take(1));
  const double timeout = meanwhile == Meanwhile::kExpires ? 1 : kForever;
  const std::uint32_t id = world.busy.client.pend({0, 1}, {.timeout = timeout, .fast = false});
  world.handOver(0);
  const std::uint32_t other = world.next.client.pend({1});
  if (designated) {
    world.designate(1);
  } else {
    world.handOver(1);
  }
  if (meanwhile == Meanwhile::kExpires) {
    ASSERT_TRUE(eventually([&] { return world.busy.async().nextDeadline().passedAt(now()); }));
  }
  std::size_t settled = 0;
  std::size_t taken = 0;
  {
    const Patience none(0);
    Barrier barrier(point);
    std::thread revoking([&] { EXPECT_TRUE(world.revoke(1)); });
    ASSERT_TRUE(barrier.awaitArrival());
    std::thread busy([&] {
      switch (meanwhile) {
        case Meanwhile::kCancels:
          settled += world.busy.async().cancel(id) ? 1 : 0;
          break;
        case Meanwhile::kExpires:
          settled += takeExpired(world.busy.environment).size();
          break;
        case Meanwhile::kTakes:
          break;
        case Meanwhile::kBlocks:
          // Not a deadlock, though the word may say so for an instant.
          EXPECT_EQ(world.busy.client.sync({0}, {.timeout = kStuck}), Status::kGranted);
          EXPECT_TRUE(world.busy.client.release({0}));
          break;
        case Meanwhile::kEnds:
          world.busy.environment.end();
          break;
        case Meanwhile::kCloses:
          world.busy.client.close();
          break;
      }
      if (!world.busy.environment.hasEnded()) taken = takeGrants(world.busy.environment).size();
    });
    // Gets as far as it can while the other is stopped.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    barrier.open();
    revoking.join();
    busy.join();
  }
  const bool ends = meanwhile == Meanwhile::kEnds || meanwhile == Meanwhile::kCloses;
  if (taken == 1) {
    EXPECT_TRUE(world.busy.client.release({0, 1}));
  }
  // Who comes first is up to them; each has exactly one outcome.
  std::size_t others = 0;
  EXPECT_TRUE(eventually([&] {
    for (const auto& grant : takeGrants(world.next.environment)) {
      ++others;
      EXPECT_EQ(grant.id, other);
      EXPECT_TRUE(world.next.client.release({1}));
    }
    if (ends) return others == 1;
    for (const auto& grant : takeGrants(world.busy.environment)) {
      ++taken;
      EXPECT_EQ(grant.id, id);
      EXPECT_TRUE(world.busy.client.release({0, 1}));
    }
    return others == 1 && settled + taken == 1;
  }));
  EXPECT_EQ(others, 1u);
  EXPECT_EQ(settled + taken, ends ? 0u : 1u);
  EXPECT_EQ(world.word(0), 0u);
  EXPECT_EQ(world.word(1), 0u);
  EXPECT_EQ(waitersOf(world.holder.client, 0) + waitersOf(world.holder.client, 1), 0u);
  EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
}

}  // namespace

TEST(Revocation, HasOneOutcomeWhateverItsThreadDoesMeanwhile) {
  for (const bool designated : {false, true}) {
    for (const char* point : {"revoke: before giving back", "put back: before queueing again"}) {
      for (const Meanwhile meanwhile : {Meanwhile::kCancels, Meanwhile::kExpires, Meanwhile::kTakes,
                                        Meanwhile::kBlocks, Meanwhile::kEnds, Meanwhile::kCloses}) {
        SCOPED_TRACE(testing::Message() << point << ", " << static_cast<int>(meanwhile)
                                        << (designated ? ", designated" : ", granted"));
        revokeMeanwhile(meanwhile, point, designated);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Revocation, DoesNotForgetAThreadThatComesBackWhileItIsRevoked) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.holder.client.take(0));
  world.busy.client.pend({0});
  world.handOver();
  ASSERT_TRUE(world.busy.environment.awaitWake(kStuck));
  std::size_t taken = 0;
  {
    Barrier barrier("take: before it looks");
    std::thread back([&] { taken = takeGrants(world.busy.environment).size(); });
    ASSERT_TRUE(barrier.awaitArrival());
    // The wake that this sends is that which the thread has come for.
    EXPECT_TRUE(world.revoke());
    barrier.open();
    back.join();
  }
  if (taken == 0) taken = awaitGrants(world.busy.environment).size();
  ASSERT_EQ(taken, 1u);
  EXPECT_TRUE(world.busy.client.release({0}));
  world.expectNothingLeft();
}

TEST(Revocation, DoesNotPassAThreadOverThatHasJustComeBack) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.holder.client.take(0));
  world.busy.client.pend({0});
  world.handOver();
  ASSERT_TRUE(world.revoke());
  ASSERT_TRUE(world.next.client.take(0));
  // Passed over by the release while the thread comes back, and before it looks for those who were.
  std::size_t taken = 0;
  {
    Barrier barrier("come back: before resettling");
    std::thread back([&] { taken = takeGrants(world.busy.environment).size(); });
    ASSERT_TRUE(barrier.awaitArrival());
    EXPECT_TRUE(world.next.client.release({0}));
    barrier.open();
    back.join();
  }
  if (taken == 0) taken = awaitGrants(world.busy.environment).size();
  ASSERT_EQ(taken, 1u);
  EXPECT_TRUE(world.busy.client.release({0}));
  world.expectNothingLeft();
}

TEST(Revocation, CallsAThreadThatGrantedItselfAndHasNotLooked) {
  Idle world;
  const Patience none(0);
  ASSERT_TRUE(world.busy.client.take(0));
  world.busy.client.pend({0});
  EXPECT_TRUE(world.busy.client.release({0}));
  ASSERT_EQ(world.word(), world.busy.slot());
  EXPECT_FALSE(world.busy.environment.awaitWake(0));
  EXPECT_TRUE(world.revoke());
  ASSERT_EQ(awaitGrants(world.busy.environment).size(), 1u);
  EXPECT_TRUE(world.busy.client.release({0}));
  world.expectNothingLeft();
}

TEST(Revocation, OfTwoThreadsThatLookAtEachOtherEnds) {
  const Patience none(0);
  for (int round = 0; round < 200; ++round) {
    Idle world;
    ASSERT_TRUE(world.holder.client.take(0));
    ASSERT_TRUE(world.holder.client.take(1));
    world.busy.client.pend({0}, {.timeout = 0.001});
    world.busy.client.pend({1}, {.timeout = 0.001});
    world.next.client.pend({1}, {.timeout = 0.001});
    world.next.client.pend({0}, {.timeout = 0.001});
    world.handOver(0);
    world.handOver(1);
    std::atomic<int> settled{0};
    const auto turn = [&](Peer& peer) {
      settled += static_cast<int>(takeExpired(peer.environment).size());
      for (const auto& grant : takeGrants(peer.environment)) {
        static_cast<void>(grant);
        ++settled;
      }
    };
    std::thread one([&] { turn(world.busy); });
    std::thread other([&] { turn(world.next); });
    one.join();
    other.join();
    for (int i = 0; i < 4 && settled.load() < 4; ++i) {
      for (const std::uint32_t stripe : {0u, 1u}) {
        if (!world.busy.client.release({stripe})) world.next.client.release({stripe});
      }
      turn(world.busy);
      turn(world.next);
    }
    ASSERT_EQ(settled.load(), 4);
  }
}

}  // namespace stripelock::test
