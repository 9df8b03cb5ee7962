// In these tests, each grant has only one wake-up. There are no slices and timeouts, so no thread notices its grant by
// polling. A lost wake-up makes the test report that it is stuck.

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr const char* kLastMoments[] = {"designated: before it looks again",
                                        "designated: before it sleeps again"};

// The holder takes the stripe just before a designated waiter tries. The holder releases the stripe by the fast path at
// one of the last moments before that waiter sleeps.
struct GivesBackAtTheLast {
  static inline Client* holder = nullptr;
  static inline std::atomic<int> took{0};
  static inline std::atomic<int> gaveBack{0};
  static inline const char* givesBackAt = nullptr;

  GivesBackAtTheLast(Client& client, const char* point) {
    holder = &client;
    givesBackAt = point;
    took.store(0);
    gaveBack.store(0);
    onSeam([](const char* point) {
      if (std::strcmp(point, "designated: before it tries") == 0 && took.load() == 0) {
        if (holder->take(0)) took.fetch_add(1);
      } else if (std::strcmp(point, givesBackAt) == 0 && gaveBack.load() == 0) {
        if (holder->giveBack(0)) gaveBack.fetch_add(1);
      }
    });
  }
  ~GivesBackAtTheLast() { onSeam(nullptr); }
  GivesBackAtTheLast(const GivesBackAtTheLast&) = delete;
  GivesBackAtTheLast& operator=(const GivesBackAtTheLast&) = delete;
};

}  // namespace

TEST(WakeUp, IsNotLostWhereTheStripeComesFreeAsADesignatedThreadGoesToSleep) {
  const NoSlices slices;
  for (const char* const moment : kLastMoments) {
    SharedMemory memory(1);
    Peer holder(memory);
    Peer waiter(memory);
    ASSERT_TRUE(holder.client.take(0));
    Blocking blocking(waiter.client, {0});
    ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
    putHandOverOff(holder.client, 0);
    const GivesBackAtTheLast holding(holder.client, moment);
    EXPECT_TRUE(holder.client.releaseSlow(0));
    EXPECT_EQ(blocking.status(), Status::kGranted);
    EXPECT_EQ(GivesBackAtTheLast::took.load(), 1);
    EXPECT_EQ(GivesBackAtTheLast::gaveBack.load(), 1);
    EXPECT_EQ(memory.word(0).load(), waiter.slot());
  }
}

TEST(WakeUp, IsNotLostWhereTheStripeComesFreeAsADesignatedEventLoopGoesToSleep) {
  for (const char* const moment : kLastMoments) {
    SharedMemory memory(1);
    Peer holder(memory);
    Peer waiter(memory);
    ASSERT_TRUE(holder.client.take(0));
    waiter.client.pend({0});
    putHandOverOff(holder.client, 0);
    const GivesBackAtTheLast holding(holder.client, moment);
    EXPECT_TRUE(holder.client.releaseSlow(0));
    EXPECT_EQ(takeGrants(waiter.environment).size(), 1u);
    EXPECT_EQ(GivesBackAtTheLast::took.load(), 1);
    EXPECT_EQ(GivesBackAtTheLast::gaveBack.load(), 1);
    EXPECT_EQ(memory.word(0).load(), waiter.slot());
  }
}

// A release finds the thread blocked, so it skips the thread's async waiter. By then the thread has continued.
TEST(WakeUp, IsNotLostForAnAsyncWaiterThatIsPassedOverAsItsThreadContinues) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  waiter.client.pend({0});
  waiter.environment.participant().block();
  {
    Barrier barrier("pass over: before it is noted");
    std::thread releasing([&] { EXPECT_TRUE(holder.client.release({0})); });
    const bool arrived = barrier.awaitArrival();
    waiter.environment.participant().unblock();
    barrier.open();
    releasing.join();
    ASSERT_TRUE(arrived);
  }
  EXPECT_EQ(awaitGrants(waiter.environment).size(), 1u);
}

// The wake for a grant is late: the thread has ended, and another thread has its slot.
TEST(WakeUp, IsNotLostForTheNextThreadWithTheSlotOfOneThatWasToldTooLate) {
  SharedMemory memory(2);
  Peer holder(memory);
  std::optional<Peer> ended(std::in_place, memory);
  ASSERT_TRUE(holder.client.take(0));
  ended->client.pend({0});
  const std::uint32_t slot = ended->slot();
  makeHandOverDue(holder.client, 0);
  {
    Barrier barrier("wake: before it is noted");
    std::thread releasing([&] { EXPECT_TRUE(holder.client.release({0})); });
    const bool arrived = barrier.awaitArrival();
    ended->environment.end();
    barrier.open();
    releasing.join();
    ASSERT_TRUE(arrived);
  }
  ended.reset();
  Peer next(memory);
  ASSERT_EQ(next.slot(), slot);
  ASSERT_TRUE(holder.client.take(1));
  next.client.pend({1});
  makeHandOverDue(holder.client, 1);
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(awaitGrants(next.environment).size(), 1u);
}

TEST(WakeUp, IsNotLostForAThreadThatIsGrantedAfterItsEventLoopWasWoken) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer waiter(memory);
  for (int round = 0; round < 3; ++round) {
    for (const std::uint32_t stripe : {0u, 1u}) ASSERT_TRUE(holder.client.take(stripe));
    waiter.client.pend({0});
    waiter.client.pend({1});
    // Grants before the event loop checks send one wake together. Each grant after a check sends another.
    const int before = waiter.environment.wakes();
    for (const std::uint32_t stripe : {0u, 1u}) {
      makeHandOverDue(holder.client, stripe);
      EXPECT_TRUE(holder.client.release({stripe}));
      if (round == 1) {
        ASSERT_TRUE(waiter.environment.awaitWake(kStuck));
        EXPECT_EQ(takeGrants(waiter.environment).size(), 1u);
      }
    }
    EXPECT_EQ(waiter.environment.wakes() - before, round == 1 ? 2 : 1);
    if (round != 1) {
      ASSERT_TRUE(waiter.environment.awaitWake(kStuck));
      EXPECT_EQ(takeGrants(waiter.environment).size(), 2u);
    }
    EXPECT_TRUE(waiter.client.release({0, 1}));
  }
}

// A grant arrives after the event loop has noted its wake, and before it reads the ready list.
TEST(WakeUp, IsNotLostForAGrantThatComesAsTheEventLoopLooks) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer waiter(memory);
  for (const std::uint32_t stripe : {0u, 1u}) {
    ASSERT_TRUE(holder.client.take(stripe));
    makeHandOverDue(holder.client, stripe);
  }
  waiter.client.pend({0});
  waiter.client.pend({1});
  for (const std::uint32_t stripe : {0u, 1u}) makeHandOverDue(holder.client, stripe);
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_TRUE(waiter.environment.awaitWake(kStuck));
  std::size_t granted = 0;
  {
    Barrier barrier("take: before the ready list");
    std::thread taking([&] { granted = takeGrants(waiter.environment).size(); });
    const bool arrived = barrier.awaitArrival();
    EXPECT_TRUE(holder.client.release({1}));
    barrier.open();
    taking.join();
    ASSERT_TRUE(arrived);
  }
  // Either the event loop saw the second grant, or it was woken again.
  if (granted < 2) granted += awaitGrants(waiter.environment).size();
  EXPECT_EQ(granted, 2u);
}

TEST(WakeUp, IsNotLostForAThreadThatBlocksAndIsGrantedAnAsyncAcquisition) {
  const NoSlices slices;
  SharedMemory memory(2);
  Peer holder(memory);
  Peer peer(memory);
  Peer other(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(1));
  peer.client.pend({0});
  // This thread waits for the stripe that the blocked thread is granted and cannot use.
  Blocking behind(other.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
  makeHandOverDue(holder.client, 0);
  std::optional<Blocking> blocking;
  {
    Barrier barrier("grant: before it is told");
    std::thread releasing([&] { EXPECT_TRUE(holder.client.release({0})); });
    const bool arrived = barrier.awaitArrival();
    blocking.emplace(peer.client, Stripes{1});
    EXPECT_TRUE(awaitWaiters(holder.client, 1, 1));
    barrier.open();
    releasing.join();
    ASSERT_TRUE(arrived);
  }
  EXPECT_EQ(behind.status(), Status::kGranted);
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(blocking->status(), Status::kGranted);
}

namespace {

// Two threads make grants to a third one. Each is stopped in the middle.
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

// The first grant is revoked before its wake arrives, so the wake finds nothing. The second grant follows.
TEST(WakeUp, IsNotLostForABlockedThreadAfterAWakeThatFoundNothing) {
  const NoSlices slices;
  // These stripes are in separate shards, so that no thread waits for a stopped thread.
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
  // By then the thread has handled the wake.
  EXPECT_TRUE(eventually([] { return TwoGrants::parks.load() >= 2; }));
  TwoGrants::secondMayGo.store(true);
  second.join();
  EXPECT_EQ(next.status(), Status::kGranted);
  EXPECT_TRUE(holder.client.release({kBlocking}));
  blocked.join();
}

TEST(WakeUp, IsNotLostForAThreadThatWantsMoreStripesAndIsGrantedTheLast) {
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

TEST(WakeUp, IsNotLostForReadersThatEnterTogether) {
  const NoSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  std::vector<std::unique_ptr<Peer>> readers;
  std::vector<std::unique_ptr<Blocking>> waits;
  ASSERT_TRUE(holder.client.take(0));
  // More participants than a WakeSet stores without an allocation.
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

TEST(WakeUp, IsNotLostForTheNextWhenADesignatedThreadTakesTheStripe) {
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
