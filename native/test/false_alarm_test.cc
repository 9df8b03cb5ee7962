// Waits that are no deadlock, though they look like one for an instant or from one side.

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/sync_wait.h"
#include "test/support.h"

namespace stripelock::test {

TEST(Deadlock, IsNotSeenInAChainThatEndsAtARunningThread) {
  SharedMemory memory(3);
  Peer running(memory);
  Peer middle(memory);
  Peer end(memory);
  ASSERT_TRUE(running.client.take(0));
  ASSERT_TRUE(middle.client.take(1));
  Blocking first(middle.client, {0});
  Blocking second(end.client, {1});
  // Longer than it takes to see one.
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 3 * kSlice));
  EXPECT_FALSE(first.decided());
  EXPECT_FALSE(second.decided());
  EXPECT_TRUE(running.client.release({0}));
  EXPECT_EQ(first.status(), Status::kGranted);
  EXPECT_TRUE(middle.client.release({1}));
  EXPECT_EQ(second.status(), Status::kGranted);
}

TEST(Deadlock, IsNotSeenInACircleThatAnAsyncWaiterCloses) {
  SharedMemory memory(2);
  Peer one(memory);
  Peer other(memory);
  ASSERT_TRUE(one.client.take(0));
  ASSERT_TRUE(other.client.take(1));
  Blocking blocking(one.client, {1});
  ASSERT_TRUE(awaitWaiters(other.client, 1, 1));
  // This thread does not block, and can release what it holds.
  other.client.pend({0});
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 2 * kSlice));
  EXPECT_FALSE(blocking.decided());
  EXPECT_TRUE(other.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(one.client.release({0}));
  EXPECT_EQ(awaitGrants(other.environment).size(), 1u);
}

TEST(Deadlock, IsNotSeenInAWaitThatHasJustBeenGranted) {
  SharedMemory memory(2);
  Peer writer(memory);
  Peer granted(memory);
  Peer peer(memory);
  ASSERT_TRUE(writer.client.take(0));
  ASSERT_TRUE(granted.client.take(1));
  Blocking reader(granted.client, {0}, {.shared = true});
  ASSERT_TRUE(awaitWaiters(writer.client, 0, 1));
  peer.client.pend({0}, {.shared = true});
  // In the wait graph by now, and stopped there while both are granted the stripe.
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kFirstSlice));
  Barrier barrier("wait: before parking");
  ASSERT_TRUE(barrier.awaitArrival());
  EXPECT_TRUE(writer.client.release({0}));
  ASSERT_EQ(awaitGrants(peer.environment).size(), 1u);
  // Waits for a thread that waits for nothing any more, though it has not noticed.
  Blocking blocking(peer.client, {1});
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 2 * kSlice));
  EXPECT_FALSE(blocking.decided());
  barrier.open();
  EXPECT_EQ(reader.status(), Status::kGranted);
  EXPECT_TRUE(granted.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST(Deadlock, IsNotSeenInWhatWasGrantedToABlockedThreadThatHasYetToNotice) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer peer(memory);
  Peer other(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(other.client.take(1));
  peer.client.pend({0});
  Blocking behind(other.client, {0}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
  Barrier barrier("grant: before it is told");
  makeHandOverDue(holder.client, 0);
  std::thread releasing([&] { EXPECT_TRUE(holder.client.release({0})); });
  ASSERT_TRUE(barrier.awaitArrival());
  // The word says that this thread holds what the other one waits for. It gives that back as soon as it is told.
  Blocking blocking(peer.client, {1}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 3 * kSlice));
  EXPECT_FALSE(blocking.decided());
  EXPECT_FALSE(behind.decided());
  barrier.open();
  releasing.join();
  EXPECT_EQ(behind.status(), Status::kGranted);
  EXPECT_TRUE(other.client.release({0, 1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(peer.client.release({1}));
}

namespace {

// Stops the second thread that is between its two looks.
struct SecondLook {
  static inline std::atomic<int> passes{0};
  static inline std::atomic<bool> open{false};

  SecondLook() {
    passes.store(0);
    open.store(false);
    onSeam([](const char* point) {
      if (std::strcmp(point, "refuse: before the second look") != 0 || passes.fetch_add(1) != 1) return;
      while (!open.load()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    });
  }
  ~SecondLook() {
    open.store(true);
    onSeam(nullptr);
  }
  SecondLook(const SecondLook&) = delete;
  SecondLook& operator=(const SecondLook&) = delete;
};

}  // namespace

TEST(Deadlock, IsNotSeenInACircleThatOneLeavesBetweenTheTwoLooks) {
  int rounds = 0;
  for (bool left = false; !left; ++rounds) {
    ASSERT_LT(rounds, 100);
    SharedMemory memory(2);
    Peer one(memory);
    Peer other(memory);
    ASSERT_TRUE(one.client.take(0));
    ASSERT_TRUE(other.client.take(1));
    SecondLook look;
    Blocking leaving(other.client, {0}, {.timeout = 60});
    ASSERT_TRUE(eventually([] { return SecondLook::passes.load() == 1; }));
    Blocking staying(one.client, {1});
    // The other one comes before its own second turn, unless the machine is busy: then there was no circle yet.
    ASSERT_TRUE(eventually([] { return SecondLook::passes.load() == 2; }));
    const Nanoseconds end = now() + 1'000'000'000;
    while (!left && now() < end) left = waitersOf(one.client, 0) == 0;
    look.open.store(true);
    const Status first = leaving.status();
    if (left) {
      EXPECT_EQ(first, Status::kTimedOut);
    }
    EXPECT_TRUE(other.client.release({1}));
    if (left) {
      EXPECT_EQ(staying.status(), Status::kGranted);
    }
    if (staying.status() == Status::kGranted) {
      EXPECT_TRUE(one.client.release({1}));
    }
    EXPECT_TRUE(one.client.release({0}));
    if (first == Status::kGranted) {
      EXPECT_TRUE(other.client.release({0}));
    }
  }
}

TEST(Deadlock, IsNeverSeenWhereStripesAreTakenInOrder) {
  SharedMemory memory(5);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      Peer peer(memory);
      std::mt19937 random(i);
      for (int round = 0; round < 60; ++round) {
        // One call each, nested, and held for longer than a slice now and then, so that all are in the wait graph.
        std::vector<std::pair<std::uint32_t, bool>> held;
        for (std::uint32_t stripe = 0; stripe < 5; ++stripe) {
          if (random() % 2 == 0) continue;
          const bool shared = random() % 3 == 0;
          ASSERT_EQ(peer.client.sync({stripe}, {.shared = shared}), Status::kGranted);
          held.emplace_back(stripe, shared);
        }
        if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice * 3 / 2));
        for (const auto& [stripe, shared] : held) ASSERT_TRUE(peer.client.release({stripe}, shared));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.cell(kWaitingCell), 0);
}

}  // namespace stripelock::test
