#include "core/sync_wait.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

// How much longer than requested a timeout may take on a loaded machine.
constexpr double kLate = 5'000;

}  // namespace

TEST(SyncWait, TakesWhatIsFreeWithoutWaiting) {
  SharedMemory memory(8);
  Peer peer(memory);
  for (const bool fast : {true, false}) {
    for (const Mode mode : kEachMode) {
      const Stripes stripes{1, 3, 7};
      const SyncOutcome outcome =
          peer.client.acquireSync(stripes, {.mode = mode, .timeout = 0, .fast = fast});
      EXPECT_EQ(outcome.status, Status::kGranted);
      EXPECT_FALSE(outcome.abandoned);
      EXPECT_EQ(countHeld(peer.client.table()), 3u);
      EXPECT_TRUE(peer.client.release(stripes, mode));
    }
  }
  EXPECT_TRUE(memory.isFree());
  EXPECT_EQ(memory.cell(kContendedCell), 0);
}

TEST(SyncWait, GoesOnWhenTheHolderReleases) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  Blocking blocking(waiter.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  // Counted a moment after it is queued.
  EXPECT_TRUE(eventually([&] { return memory.cell(kWaitingCell) == 1; }));
  EXPECT_FALSE(blocking.decided());
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_EQ(holderOf(memory.word(0).load()), waiter.slot());
  EXPECT_EQ(memory.cell(kWaitingCell), 0);
  EXPECT_EQ(memory.cell(kContendedCell), 1);
  EXPECT_TRUE(waiter.client.release({0}));
  EXPECT_TRUE(memory.isFree());
}

TEST(SyncWait, MakesOneAttemptForATimeoutOfZero) {
  SharedMemory memory(4);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(2));
  for (const double timeout : {0.0, -1.0}) {
    const SyncOutcome outcome = waiter.client.acquireSync({0, 1, 2, 3}, {.timeout = timeout});
    EXPECT_EQ(outcome.status, Status::kTimedOut);
    EXPECT_EQ(outcome.stripe, 2u);
  }
  EXPECT_EQ(memory.cell(kContendedCell), 0);
}

TEST(SyncWait, TimesOutAfterItsTimeoutAndNotBefore) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  for (const double timeout : {0.01, 1.0, 30.0}) {
    Blocking blocking(waiter.client, {0}, {.timeout = timeout});
    EXPECT_EQ(blocking.status(), Status::kTimedOut);
    EXPECT_GE(blocking.milliseconds(), timeout);
    EXPECT_LT(blocking.milliseconds(), timeout + kLate);
  }
  EXPECT_EQ(memory.word(0).load(), holder.slot());
  EXPECT_EQ(memory.cell(kWaitingCell), 0);
}

TEST(SyncWait, DoesNotTimeOutBeyondWhatFitsInto32Bits) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  for (const double timeout : {2147483648.0, 1e12, 1e300, kForever}) {
    ASSERT_TRUE(holder.client.take(0));
    Blocking blocking(waiter.client, {0}, {.timeout = timeout});
    ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_FALSE(blocking.decided());
    EXPECT_TRUE(holder.client.release({0}));
    EXPECT_EQ(blocking.status(), Status::kGranted);
    EXPECT_TRUE(waiter.client.release({0}));
  }
}

TEST(SyncWait, SpendsOneTimeoutOverAllStripes) {
  SharedMemory memory(3);
  Peer holder(memory);
  Peer waiter(memory);
  for (const std::uint32_t stripe : {0u, 1u, 2u}) ASSERT_TRUE(holder.client.take(stripe));
  constexpr double kTimeout = 1000;
  Blocking blocking(waiter.client, {0, 1, 2}, {.timeout = kTimeout});
  // Each stripe comes well before the timeout, but the last never does.
  for (const std::uint32_t stripe : {0u, 1u}) {
    ASSERT_TRUE(awaitWaiters(holder.client, stripe, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    EXPECT_TRUE(holder.client.release({stripe}));
  }
  const Nanoseconds lastGrant = now();
  const SyncOutcome& outcome = blocking.join();
  EXPECT_EQ(outcome.status, Status::kTimedOut);
  EXPECT_EQ(outcome.stripe, 2u);
  EXPECT_GE(blocking.milliseconds(), kTimeout);
  // Half of it was spent by then; the other half is for a busy machine.
  EXPECT_LT(milliseconds(now() - lastGrant), kTimeout);
  EXPECT_EQ(memory.word(0).load(), 0u);
  EXPECT_EQ(memory.word(1).load(), 0u);
}

TEST(SyncWait, GivesBackEverythingWhenItTimesOut) {
  SharedMemory memory(6);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(4));
  for (const Mode mode : kEachMode) {
    for (const bool fast : {false, true}) {
      EXPECT_EQ(waiter.client.sync({0, 1, 3, 4, 5}, {.mode = mode, .timeout = 2, .fast = fast}),
                Status::kTimedOut);
      EXPECT_EQ(countHeld(holder.client.table()), 1u);
      for (std::uint32_t stripe = 0; stripe < 6; ++stripe) {
        EXPECT_EQ(waiter.client.membership().sharesOf(stripe), 0u);
      }
    }
  }
}

TEST(SyncWait, LetsOthersInWhenItGivesBack) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer waiter(memory);
  Peer other(memory);
  ASSERT_TRUE(holder.client.take(1));
  Barrier late("wait: before it times out");
  Blocking both(waiter.client, {0, 1}, {.timeout = 100});
  ASSERT_TRUE(late.awaitArrival());
  Blocking first(other.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  late.open();
  EXPECT_EQ(both.status(), Status::kTimedOut);
  EXPECT_EQ(first.status(), Status::kGranted);
}

TEST(SyncWait, IsGrantedTheRemainingStripesByWhoReleasesTheFirst) {
  SharedMemory memory(200);
  Peer holder(memory);
  Peer waiter(memory);
  const Stripes wanted{0, 50, 100, 150, 199};
  for (const std::uint32_t stripe : wanted) ASSERT_TRUE(holder.client.take(stripe));
  Blocking blocking(waiter.client, wanted);
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  makeHandOverDue(holder.client, 0);
  for (const std::uint32_t stripe : {199u, 150u, 100u, 50u, 0u}) {
    EXPECT_FALSE(blocking.decided());
    EXPECT_TRUE(holder.client.release({stripe}));
  }
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_EQ(countHeld(holder.client.table()), wanted.size());
  EXPECT_TRUE(waiter.client.release(wanted));
  EXPECT_TRUE(memory.isFree());
}

TEST(SyncWait, HasOneOutcomeWhenGrantAndTimeoutCoincide) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer waiter(memory);
  int granted = 0;
  for (int round = 0; round < 300; ++round) {
    ASSERT_TRUE(holder.client.take(0));
    ASSERT_TRUE(holder.client.take(1));
    Blocking blocking(waiter.client, {0, 1}, {.timeout = 0.3});
    std::this_thread::sleep_for(std::chrono::microseconds(150 + round));
    EXPECT_TRUE(holder.client.release({0, 1}));
    if (blocking.status() == Status::kGranted) {
      ++granted;
      EXPECT_TRUE(waiter.client.release({0, 1}));
    } else {
      EXPECT_EQ(blocking.status(), Status::kTimedOut);
    }
    ASSERT_TRUE(memory.isFree());
  }
  EXPECT_EQ(memory.cell(kWaitingCell), 0);
}

TEST(SyncWait, ExcludesOthersWhileItHolds) {
  SharedMemory memory(4);
  constexpr int kThreads = 4;
  constexpr int kRounds = 3000;
  // Not atomic on purpose, one for each stripe.
  std::vector<int> counters(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Peer peer(memory);
      for (int round = 0; round < kRounds; ++round) {
        const std::uint32_t lower = static_cast<std::uint32_t>(round + i) % 3;
        const Stripes stripes{lower, lower + 1};
        ASSERT_EQ(peer.client.sync(stripes, {.fast = round % 2 == 0}), Status::kGranted);
        for (const std::uint32_t stripe : stripes) ++counters[stripe];
        ASSERT_TRUE(peer.client.release(stripes));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters[0] + counters[1] + counters[2] + counters[3], 2 * kThreads * kRounds);
  EXPECT_TRUE(memory.isFree());
}

}  // namespace stripelock::test
