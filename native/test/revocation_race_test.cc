// Revocations while the thread that loses its turn does something, or while another waiter is revoked.

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

namespace {

// The action of a waiter's thread while the waiter is being revoked.
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
          // This is not a deadlock, although the word may name this thread for a moment.
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
    // Gives the busy thread time to run until it finishes or must wait for the stopped thread.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    barrier.open();
    revoking.join();
    busy.join();
  }
  const bool ends = meanwhile == Meanwhile::kEnds || meanwhile == Meanwhile::kCloses;
  if (taken == 1) {
    EXPECT_TRUE(world.busy.client.release({0, 1}));
  }
  // The others may be granted in any order, but each has exactly one outcome.
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

TEST_F(Revocation, HasOneOutcomeWhateverItsThreadDoesMeanwhile) {
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

TEST_F(Revocation, DoesNotForgetAThreadThatComesBackWhileItIsRevoked) {
  const Patience none(0);
  ASSERT_TRUE(holder.client.take(0));
  busy.client.pend({0});
  handOver();
  ASSERT_TRUE(busy.environment.awaitWake(kStuck));
  std::size_t taken = 0;
  {
    Barrier barrier("take: before it looks");
    std::thread back([&] { taken = takeGrants(busy.environment).size(); });
    ASSERT_TRUE(barrier.awaitArrival());
    // The thread has not cleared its last wake yet, so this revocation sends no further wake. The thread must notice
    // the revocation itself.
    EXPECT_TRUE(revoke());
    barrier.open();
    back.join();
  }
  if (taken == 0) taken = awaitGrants(busy.environment).size();
  ASSERT_EQ(taken, 1u);
  EXPECT_TRUE(busy.client.release({0}));
  expectNothingLeft();
}

TEST_F(Revocation, DoesNotPassAThreadOverThatHasJustComeBack) {
  const Patience none(0);
  ASSERT_TRUE(holder.client.take(0));
  busy.client.pend({0});
  handOver();
  ASSERT_TRUE(revoke());
  ASSERT_TRUE(next.client.take(0));
  // The thread is returning to its event loop. The release skips its waiter before the thread checks for skipped
  // waiters.
  std::size_t taken = 0;
  {
    Barrier barrier("come back: before resettling");
    std::thread back([&] { taken = takeGrants(busy.environment).size(); });
    ASSERT_TRUE(barrier.awaitArrival());
    EXPECT_TRUE(next.client.release({0}));
    barrier.open();
    back.join();
  }
  if (taken == 0) taken = awaitGrants(busy.environment).size();
  ASSERT_EQ(taken, 1u);
  EXPECT_TRUE(busy.client.release({0}));
  expectNothingLeft();
}

TEST_F(Revocation, CallsAThreadThatGrantedItselfAndHasNotLooked) {
  const Patience none(0);
  ASSERT_TRUE(busy.client.take(0));
  busy.client.pend({0});
  EXPECT_TRUE(busy.client.release({0}));
  ASSERT_EQ(word(), busy.slot());
  EXPECT_FALSE(busy.environment.awaitWake(0));
  EXPECT_TRUE(revoke());
  ASSERT_EQ(awaitGrants(busy.environment).size(), 1u);
  EXPECT_TRUE(busy.client.release({0}));
  expectNothingLeft();
}

TEST_F(Revocation, EndsIfTwoThreadsLookAtEachOther) {
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
