#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

// Takes and releases stripe 0 as fast as it can, and never waits: the worst case of barging.
class Barger {
 public:
  explicit Barger(SharedMemory& memory)
      : thread_([this, &memory] {
          Peer peer(memory);
          while (!done_.load()) {
            if (!peer.client.take(0)) continue;
            rounds_.fetch_add(1);
            peer.client.release({0});
          }
        }) {}
  ~Barger() {
    done_.store(true);
    thread_.join();
  }
  void awaitRound() const {
    const int seen = rounds_.load();
    ASSERT_TRUE(eventually([&] { return rounds_.load() > seen; }));
  }

 private:
  std::atomic<bool> done_{false};
  std::atomic<int> rounds_{0};
  std::thread thread_;
};

}  // namespace

TEST(Fairness, GivesAsyncWaitersTheirTurnInOrderOfArrival) {
  SharedMemory memory(1);
  Peer holder(memory);
  ASSERT_TRUE(holder.client.take(0));
  std::vector<std::unique_ptr<Peer>> waiters;
  for (int i = 0; i < 5; ++i) {
    waiters.push_back(std::make_unique<Peer>(memory));
    waiters.back()->client.pend({0});
  }
  Peer* current = &holder;
  for (const auto& next : waiters) {
    makeHandOverDue(holder.client, 0);
    EXPECT_TRUE(current->client.release({0}));
    EXPECT_EQ(holderOf(memory.word(0).load()), next->slot());
    EXPECT_EQ(takeGrants(next->environment).size(), 1u);
    current = next.get();
  }
}

TEST(Fairness, GivesSyncWaitersTheirTurnInOrderOfArrival) {
  SharedMemory memory(1);
  Peer holder(memory);
  ASSERT_TRUE(holder.client.take(0));
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<std::unique_ptr<Blocking>> waits;
  for (std::size_t i = 0; i < 4; ++i) {
    peers.push_back(std::make_unique<Peer>(memory));
    waits.push_back(std::make_unique<Blocking>(peers[i]->client, Stripes{0}));
    ASSERT_TRUE(awaitWaiters(holder.client, 0, i + 1));
  }
  Peer* current = &holder;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    EXPECT_TRUE(current->client.release({0}));
    EXPECT_EQ(waits[i]->status(), Status::kGranted);
    EXPECT_EQ(holderOf(memory.word(0).load()), peers[i]->slot());
    current = peers[i].get();
  }
}

TEST(Fairness, HandsTheStripeToTheHeadOnceItHasWaitedLongEnough) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  Blocking blocking(waiter.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  // The release itself hands it over: nobody could have taken it in between.
  EXPECT_EQ(memory.word(0).load(), waiter.slot());
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST(Fairness, LetsARunningThreadBargeBeforeThat) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  Blocking blocking(waiter.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  putHandOverOff(holder.client, 0);
  {
    Barrier barrier("designated: before it tries");
    EXPECT_TRUE(holder.client.release({0}));
    ASSERT_TRUE(barrier.awaitArrival());
    // Free, and nobody needs to call the core, while the waiter is on its way.
    EXPECT_EQ(memory.word(0).load(), 0u);
    EXPECT_TRUE(holder.client.take(0));
    EXPECT_TRUE(holder.client.giveBack(0));
    EXPECT_TRUE(holder.client.take(0));
  }
  // It comes too late, and goes back to its place.
  ASSERT_TRUE(eventually([&] { return memory.word(0).load() == (holder.slot() | kQueued); }));
  EXPECT_FALSE(blocking.decided());
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(memory.word(0).load(), waiter.slot());
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST(Fairness, LetsARunningThreadBargePastAThreadThatWantsMoreStripes) {
  SharedMemory memory(3);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(1));
  Blocking blocking(waiter.client, {0, 1, 2});
  ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
  putHandOverOff(holder.client, 1);
  {
    Barrier barrier("designated: before it tries");
    EXPECT_TRUE(holder.client.release({1}));
    ASSERT_TRUE(barrier.awaitArrival());
    EXPECT_EQ(memory.word(0).load(), waiter.slot());
    EXPECT_EQ(memory.word(1).load(), 0u);
    // While it sleeps, nothing more is taken for it.
    EXPECT_EQ(memory.word(2).load(), 0u);
    EXPECT_TRUE(holder.client.take(1));
    EXPECT_TRUE(holder.client.giveBack(1));
  }
  EXPECT_EQ(blocking.status(), Status::kGranted);
  for (const std::uint32_t stripe : {0, 1, 2}) EXPECT_EQ(memory.word(stripe).load(), waiter.slot());
}

TEST(Fairness, LetsARunningThreadBargePastAnEventLoopThatWantsMoreStripes) {
  SharedMemory memory(3);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(1));
  waiter.client.pend({0, 1, 2});
  putHandOverOff(holder.client, 1);
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(memory.word(0).load(), waiter.slot());
  EXPECT_EQ(memory.word(1).load(), 0u);
  EXPECT_EQ(memory.word(2).load(), 0u);
  EXPECT_TRUE(holder.client.take(1));
  EXPECT_TRUE(takeGrants(waiter.environment).empty());
  EXPECT_EQ(memory.word(1).load(), holder.slot() | kQueued);
  // Once it has waited long enough, every free stripe is handed over at once.
  makeHandOverDue(holder.client, 1);
  EXPECT_TRUE(holder.client.release({1}));
  for (const std::uint32_t stripe : {0, 1, 2}) EXPECT_EQ(memory.word(stripe).load(), waiter.slot());
  EXPECT_EQ(takeGrants(waiter.environment).size(), 1u);
}

TEST(Fairness, PassesTheTurnOnWhenTheChosenWaiterTimesOut) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer chosen(memory);
  Peer next(memory);
  ASSERT_TRUE(holder.client.take(0));
  Barrier barrier("wait: before it times out");
  Blocking first(chosen.client, {0}, {.timeout = 1});
  ASSERT_TRUE(barrier.awaitArrival());
  next.client.pend({0});
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(memory.word(0).load(), 0u);
  barrier.open();
  EXPECT_EQ(first.status(), Status::kTimedOut);
  EXPECT_EQ(awaitGrants(next.environment).size(), 1u);
  EXPECT_EQ(memory.word(0).load(), next.slot());
}

TEST(Fairness, DoesNotLetABargingThreadStarveASyncWaiter) {
  SharedMemory memory(1);
  Peer waiter(memory);
  const Barger barger(memory);
  double longest = 0;
  for (int round = 0; round < 50; ++round) {
    barger.awaitRound();
    Blocking blocking(waiter.client, {0}, {.timeout = kStuck});
    ASSERT_EQ(blocking.status(), Status::kGranted);
    longest = std::max(longest, blocking.milliseconds());
    ASSERT_TRUE(waiter.client.release({0}));
  }
  // kFairness is 1 ms; the rest is for a machine with fewer processors than busy threads, where the time slices of the
  // barging thread must end first.
  EXPECT_LT(longest, 2'000);
}

TEST(Fairness, DoesNotLetABargingThreadStarveAnAsyncWaiter) {
  SharedMemory memory(1);
  Peer waiter(memory);
  const Barger barger(memory);
  for (int round = 0; round < 50; ++round) {
    barger.awaitRound();
    if (waiter.client.acquire({0}).status == AsyncStart::kPending) {
      ASSERT_EQ(awaitGrants(waiter.environment).size(), 1u);
    }
    ASSERT_TRUE(waiter.client.release({0}));
  }
}

TEST(Fairness, PrefersAnAsyncWaiterOfTheReleasingThreadForAWhileOnly) {
  SharedMemory memory(1);
  Peer local(memory);
  Peer remote(memory);
  ASSERT_TRUE(local.client.take(0));
  remote.client.pend({0});
  local.client.pend({0});
  local.client.pend({0});
  putHandOverOff(local.client, 0);
  EXPECT_TRUE(local.client.release({0}));
  EXPECT_EQ(holderOf(memory.word(0).load()), local.slot());
  // No event loop was woken for it: the releasing thread looks by itself.
  EXPECT_EQ(local.environment.wakes(), 0);
  EXPECT_EQ(takeGrants(local.environment).size(), 1u);
  makeHandOverDue(local.client, 0);
  EXPECT_TRUE(local.client.release({0}));
  EXPECT_EQ(holderOf(memory.word(0).load()), remote.slot());
  EXPECT_EQ(awaitGrants(remote.environment).size(), 1u);
}

TEST(Fairness, ServesManyThreadsThatAllWantOneStripe) {
  SharedMemory memory(1);
  constexpr int kThreads = 6;
  std::atomic<bool> done{false};
  std::array<std::atomic<int>, kThreads> served{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Peer peer(memory);
      while (!done.load()) {
        ASSERT_EQ(peer.client.sync({0}, {.timeout = kStuck}), Status::kGranted);
        served[i].fetch_add(1);
        ASSERT_TRUE(peer.client.release({0}));
      }
    });
  }
  const auto all = [&] {
    return std::all_of(served.begin(), served.end(), [](const auto& count) { return count.load() >= 20; });
  };
  EXPECT_TRUE(eventually(all));
  done.store(true);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace stripelock::test
