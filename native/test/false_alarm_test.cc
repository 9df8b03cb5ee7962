// Waits that are not a deadlock, though they look like one for an instant or from one side.

#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/sync_wait.h"
#include "test/support.h"

namespace stripelock::test {

TEST(Deadlock, IsNotSeenInAChainThatEndsAtARunningThread) {
  const UsualSlices slices;
  SharedMemory memory(3);
  Peer running(memory);
  Peer middle(memory);
  Peer end(memory);
  ASSERT_TRUE(running.client.take(0));
  ASSERT_TRUE(middle.client.take(1));
  Blocking first(middle.client, {0});
  Blocking second(end.client, {1});
  // Longer than it takes to find a deadlock.
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 3 * kSlice));
  EXPECT_FALSE(first.decided());
  EXPECT_FALSE(second.decided());
  EXPECT_TRUE(running.client.release({0}));
  EXPECT_EQ(first.status(), Status::kGranted);
  EXPECT_TRUE(middle.client.release({1}));
  EXPECT_EQ(second.status(), Status::kGranted);
}

TEST(Deadlock, IsNotSeenInACycleThatAnAsyncWaiterCloses) {
  const UsualSlices slices;
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
  const UsualSlices slices;
  SharedMemory memory(2);
  Peer writer(memory);
  Peer granted(memory);
  Peer peer(memory);
  ASSERT_TRUE(writer.client.take(0));
  ASSERT_TRUE(granted.client.take(1));
  Blocking reader(granted.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(writer.client, 0, 1));
  peer.client.pend({0}, {.mode = Mode::kShared});
  // By now it is in the wait graph. It is stopped there while both are granted the stripe.
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kFirstSlice));
  Barrier barrier("wait: before parking");
  ASSERT_TRUE(barrier.awaitArrival());
  EXPECT_TRUE(writer.client.release({0}));
  ASSERT_EQ(awaitGrants(peer.environment).size(), 1u);
  // Waits for a thread that no longer waits for anything, but has not noticed.
  Blocking blocking(peer.client, {1});
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 2 * kSlice));
  EXPECT_FALSE(blocking.decided());
  barrier.open();
  EXPECT_EQ(reader.status(), Status::kGranted);
  EXPECT_TRUE(granted.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST(Deadlock, IsNotSeenInWhatWasGrantedToABlockedThreadThatHasYetToNotice) {
  const UsualSlices slices;
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
  // According to the word, this thread holds what the other one waits for. It gives that back as soon as it is told.
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

// Stops the first thread that gets between its two looks, and makes another one leave its wait meanwhile.
struct BetweenLooks {
  static inline thread_local bool stops = false;
  static inline std::atomic<bool> stopped{false};
  static inline std::atomic<bool> open{false};

  BetweenLooks() {
    stopped.store(false);
    open.store(false);
    onSeam([](const char* point) {
      if (!stops || std::strcmp(point, "refuse: before the second look") != 0 || stopped.exchange(true))
        return;
      while (!open.load()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    });
  }
  ~BetweenLooks() {
    open.store(true);
    onSeam(nullptr);
  }
  BetweenLooks(const BetweenLooks&) = delete;
  BetweenLooks& operator=(const BetweenLooks&) = delete;

  // Both are asked at the end of each slice, before the look.
  static bool staying(void*) {
    stops = true;
    return false;
  }
  static bool leaving(void*) { return stopped.load(); }
};

}  // namespace

TEST(Deadlock, IsNotSeenInACycleThatOneLeavesBetweenTheTwoLooks) {
  const UsualSlices slices;
  const Nanoseconds end = now() + static_cast<Nanoseconds>(kStuck * 1e6);
  for (bool left = false; !left;) {
    ASSERT_LT(now(), end);
    SharedMemory memory(2);
    Peer one(memory);
    Peer other(memory);
    ASSERT_TRUE(one.client.take(0));
    ASSERT_TRUE(other.client.take(1));
    // Joined when nobody is stopped anymore.
    std::optional<Blocking> leaving;
    std::optional<Blocking> staying;
    BetweenLooks looks;
    leaving.emplace(other.client, Stripes{0}, Ask{}, Interrupt{.requested = BetweenLooks::leaving});
    // In the wait graph by then.
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kFirstSlice));
    staying.emplace(one.client, Stripes{1}, Ask{}, Interrupt{.requested = BetweenLooks::staying});
    ASSERT_TRUE(eventually([] { return BetweenLooks::stopped.load(); }));
    // It does not leave if it was also about to look, and now waits until the first one has looked.
    const Nanoseconds soon = now() + 10 * kSlice;
    while (!left && now() < soon) left = waitersOf(one.client, 0) == 0;
    looks.open.store(true);
    if (left) {
      EXPECT_EQ(leaving->status(), Status::kInterrupted);
      EXPECT_TRUE(other.client.release({1}));
      EXPECT_EQ(staying->status(), Status::kGranted);
      EXPECT_TRUE(one.client.release({1}));
    } else {
      leaving->join();
      EXPECT_TRUE(other.client.release({1}));
      if (staying->status() == Status::kGranted) {
        EXPECT_TRUE(one.client.release({1}));
      }
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
        // One call each, nested, and sometimes held for longer than a slice, so that all are in the wait graph.
        std::vector<std::pair<std::uint32_t, Mode>> held;
        for (std::uint32_t stripe = 0; stripe < 5; ++stripe) {
          if (random() % 2 == 0) continue;
          const Mode mode = sharedIf(random() % 3 == 0);
          ASSERT_EQ(peer.client.sync({stripe}, {.mode = mode}), Status::kGranted);
          held.emplace_back(stripe, mode);
        }
        if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice * 3 / 2));
        for (const auto& [stripe, mode] : held) ASSERT_TRUE(peer.client.release({stripe}, mode));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.cell(kWaitingCell), 0);
}

}  // namespace stripelock::test
