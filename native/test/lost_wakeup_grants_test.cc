// As in lost_wakeup_test.cc, each wake-up is the only one. Here one release or thread concerns several waiters.

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

// Two threads that make grants to a third one. Each is stopped on its way.
struct TwoGrants {
  enum class Role { kNone, kFirst, kSecond, kBlocked };
  static inline thread_local Role mine = Role::kNone;
  static inline std::atomic<int> arrived{0};
  static inline std::atomic<int> parks{0};
  static inline std::atomic<bool> firstMayGo{false};
  static inline std::atomic<bool> secondMayGo{false};

  TwoGrants() {
    arrived.store(0);
    parks.store(0);
    firstMayGo.store(false);
    secondMayGo.store(false);
    onSeam([](const char* point) {
      if (mine == Role::kFirst && std::strcmp(point, "wake: before it is noted") == 0) stopUntil(firstMayGo);
      if (mine == Role::kSecond && std::strcmp(point, "grant: before it is told") == 0)
        stopUntil(secondMayGo);
      if (mine == Role::kBlocked && std::strcmp(point, "wait: before parking") == 0) parks.fetch_add(1);
    });
  }
  ~TwoGrants() {
    firstMayGo.store(true);
    secondMayGo.store(true);
    onSeam(nullptr);
  }
  TwoGrants(const TwoGrants&) = delete;
  TwoGrants& operator=(const TwoGrants&) = delete;

  static void stopUntil(const std::atomic<bool>& mayGo) {
    arrived.fetch_add(1);
    while (!mayGo.load()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
};

}  // namespace

// The first grant is taken back before its wake arrives, so the wake finds nothing. The second grant comes after that.
TEST(LostWakeUp, IsNoneForABlockedThreadAfterAWakeThatFoundNothing) {
  const NoSlices slices;
  // In shards of their own, so that nobody waits for a thread that is stopped.
  constexpr std::uint32_t kSecond = 100;
  constexpr std::uint32_t kBlocking = 199;
  SharedMemory memory(200);
  Peer holder(memory);
  Peer other(memory);
  Peer peer(memory);
  Peer behind(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(kBlocking));
  ASSERT_TRUE(other.client.take(kSecond));
  peer.client.pend({0});
  peer.client.pend({kSecond});
  Blocking next(behind.client, {kSecond});
  ASSERT_TRUE(awaitWaiters(other.client, kSecond, 2));
  for (const std::uint32_t stripe : {0u, kSecond}) makeHandOverDue(holder.client, stripe);
  TwoGrants grants;
  std::thread first([&] {
    TwoGrants::mine = TwoGrants::Role::kFirst;
    EXPECT_TRUE(holder.client.release({0}));
  });
  std::thread second([&] {
    TwoGrants::mine = TwoGrants::Role::kSecond;
    EXPECT_TRUE(other.client.release({kSecond}));
  });
  EXPECT_TRUE(eventually([] { return TwoGrants::arrived.load() == 2; }));
  std::thread blocked([&] {
    TwoGrants::mine = TwoGrants::Role::kBlocked;
    EXPECT_EQ(peer.client.sync({kBlocking}, {.timeout = 2 * kStuck}), Status::kGranted);
  });
  EXPECT_TRUE(eventually([] { return TwoGrants::parks.load() >= 1; }));
  TwoGrants::firstMayGo.store(true);
  first.join();
  // By then it has looked for the reason of the wake.
  EXPECT_TRUE(eventually([] { return TwoGrants::parks.load() >= 2; }));
  TwoGrants::secondMayGo.store(true);
  second.join();
  EXPECT_EQ(next.status(), Status::kGranted);
  EXPECT_TRUE(holder.client.release({kBlocking}));
  blocked.join();
}

TEST(LostWakeUp, IsNoneForAThreadThatWantsMoreStripesAndIsGrantedTheLast) {
  const NoSlices slices;
  SharedMemory memory(2);
  Peer holder(memory);
  Peer waiter(memory);
  for (const bool due : {true, false}) {
    ASSERT_TRUE(holder.client.take(0));
    ASSERT_TRUE(holder.client.take(1));
    Blocking blocking(waiter.client, {0, 1});
    for (const std::uint32_t stripe : {0u, 1u}) {
      ASSERT_TRUE(awaitWaiters(holder.client, stripe, 1));
      if (due) {
        makeHandOverDue(holder.client, stripe);
      } else {
        putHandOverOff(holder.client, stripe);
      }
      EXPECT_TRUE(holder.client.release({stripe}));
    }
    EXPECT_EQ(blocking.status(), Status::kGranted);
    EXPECT_TRUE(waiter.client.release({0, 1}));
  }
}

TEST(LostWakeUp, IsNoneForReadersThatEnterTogether) {
  const NoSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  std::vector<std::unique_ptr<Peer>> readers;
  std::vector<std::unique_ptr<Blocking>> waits;
  ASSERT_TRUE(holder.client.take(0));
  // More than a WakeSet holds without an allocation.
  for (std::size_t i = 0; i < 9; ++i) {
    readers.push_back(std::make_unique<Peer>(memory));
    const Ask ask{.mode = Mode::kShared};
    waits.push_back(std::make_unique<Blocking>(readers[i]->client, Stripes{0}, ask));
    ASSERT_TRUE(awaitWaiters(holder.client, 0, i + 1));
  }
  EXPECT_TRUE(holder.client.release({0}));
  for (const auto& wait : waits) EXPECT_EQ(wait->status(), Status::kGranted);
  EXPECT_EQ(memory.word(0).load(), kShared + 9);
}

TEST(LostWakeUp, IsNoneForTheNextWhenADesignatedThreadTakesTheStripe) {
  const NoSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer first(memory);
  Peer second(memory);
  ASSERT_TRUE(holder.client.take(0));
  Blocking one(first.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  Blocking two(second.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(one.status(), Status::kGranted);
  EXPECT_EQ(memory.word(0).load(), first.slot() | kQueued);
  EXPECT_TRUE(first.client.release({0}));
  EXPECT_EQ(two.status(), Status::kGranted);
}

}  // namespace stripelock::test
