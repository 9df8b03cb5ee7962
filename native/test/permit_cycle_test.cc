// Threads block for permits. A wait is refused if all permits are held by threads that cannot continue. A wait that
// can end is never refused.

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr std::uint32_t kLimit = 2;
constexpr Ask kPermit{.mode = Mode::kShared};
// This timeout is long enough that a wrong refusal would come before it: threads search at the end of each slice, every
// 20 ms.
constexpr Ask kPermitForAWhile{.mode = Mode::kShared, .timeout = 300};

struct Holder : Peer {
  explicit Holder(SharedMemory& memory) : Peer(memory, false, kLimit) {}
  void hold(std::uint32_t stripe) { EXPECT_TRUE(client.take(stripe, Mode::kShared)); }
  void release(std::uint32_t stripe) { EXPECT_TRUE(client.release({stripe}, Mode::kShared)); }
};

// Threads 0 and 1 hold the permits of stripe 0; threads 2 and 3 hold the permits of stripe 1.
class PermitCycle : public testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < 4; ++i) {
      threads.push_back(std::make_unique<Holder>(memory));
      threads[i]->hold(held(i));
    }
  }
  static std::uint32_t held(std::size_t i) { return i < 2 ? 0 : 1; }
  static std::uint32_t wanted(std::size_t i) { return 1 - held(i); }
  void block(std::size_t i, Ask ask = kPermit) {
    waits[i] = std::make_unique<Blocking>(threads[i]->client, Stripes{wanted(i)}, ask);
  }

  const UsualSlices slices;
  SharedMemory memory{4};
  std::vector<std::unique_ptr<Holder>> threads;
  std::array<std::unique_ptr<Blocking>, 4> waits;
};

}  // namespace

TEST(PermitWait, IsRefusedAtOnceToAThreadThatHoldsAllPermitsItself) {
  SharedMemory memory(2);
  Holder thread(memory);
  for (std::uint32_t i = 0; i < kLimit; ++i) thread.hold(0);
  const SyncOutcome outcome = thread.client.acquireSync({0}, kPermit);
  EXPECT_EQ(outcome.status, Status::kDeadlock);
  ASSERT_EQ(outcome.cycle.size(), 1u);
  EXPECT_EQ(outcome.cycle[0].threadId, thread.environment.threadId());
  EXPECT_EQ(thread.client.sync({0, 1}, kPermit), Status::kDeadlock);
  EXPECT_EQ(memory.word(1).load(), 0u);
  for (std::uint32_t i = 0; i < kLimit; ++i) thread.release(0);
}

TEST(PermitWait, EndsForAThreadThatHoldsSomeOfThemWhenAnotherReleases) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Holder thread(memory);
  Holder other(memory);
  thread.hold(0);
  other.hold(0);
  EXPECT_EQ(thread.client.sync({0}, kPermitForAWhile), Status::kTimedOut);
  Blocking wait(thread.client, {0}, kPermit);
  ASSERT_TRUE(awaitWaiters(other.client, 0, 1));
  other.release(0);
  EXPECT_EQ(wait.status(), Status::kGranted);
  for (int i = 0; i < 2; ++i) thread.release(0);
}

TEST(PermitWait, IsRefusedToOneOfTwoThreadsThatWaitForTheOthersPermit) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Holder one(memory);
  Holder other(memory);
  one.hold(0);
  other.hold(0);
  Blocking first(one.client, {0}, kPermit);
  Blocking second(other.client, {0}, kPermit);
  ASSERT_TRUE(eventually([&] { return first.decided() || second.decided(); }));
  const bool isFirst = first.decided();
  Blocking& refused = isFirst ? first : second;
  EXPECT_EQ(refused.status(), Status::kDeadlock);
  EXPECT_EQ(refused.join().cycle.size(), 2u);
  (isFirst ? one : other).release(0);
  EXPECT_EQ((isFirst ? second : first).status(), Status::kGranted);
  for (int i = 0; i < 2; ++i) (isFirst ? other : one).release(0);
}

TEST_F(PermitCycle, IsRefusedToOneThreadIfAllHoldersAreBlocked) {
  for (std::size_t i = 0; i < 4; ++i) block(i);
  std::size_t refused = 4;
  ASSERT_TRUE(eventually([&] {
    for (std::size_t i = 0; i < 4; ++i) {
      if (waits[i]->decided()) refused = i;
    }
    return refused < 4;
  }));
  const SyncOutcome& outcome = waits[refused]->join();
  EXPECT_EQ(outcome.status, Status::kDeadlock);
  // Each thread in the cycle waits for a permit of the next thread. So holders of stripe 0 and of stripe 1 alternate.
  EXPECT_TRUE(outcome.cycle.size() == 2 || outcome.cycle.size() == 4) << outcome.cycle.size();
  EXPECT_EQ(outcome.cycle[0].threadId, threads[refused]->environment.threadId());
  for (std::size_t i = 0; i < outcome.cycle.size(); ++i) {
    EXPECT_EQ(outcome.cycle[i].stripe, i % 2 == 0 ? wanted(refused) : held(refused));
  }
  // Then they continue one after the other: each granted thread releases its hold.
  threads[refused]->release(held(refused));
  std::vector<bool> done(4, false);
  done[refused] = true;
  for (int left = 3; left > 0; --left) {
    std::size_t next = 4;
    ASSERT_TRUE(eventually([&] {
      for (std::size_t i = 0; i < 4; ++i) {
        if (!done[i] && waits[i]->decided()) next = i;
      }
      return next < 4;
    }));
    EXPECT_EQ(waits[next]->status(), Status::kGranted);
    threads[next]->release(held(next));
    threads[next]->release(wanted(next));
    done[next] = true;
  }
  EXPECT_TRUE(memory.isFree());
}

TEST_F(PermitCycle, IsNotRefusedThroughOnlySomeHolders) {
  for (const std::size_t i : {0, 1, 2}) block(i, kPermitForAWhile);
  for (const std::size_t i : {0, 1, 2}) EXPECT_EQ(waits[i]->status(), Status::kTimedOut) << i;
  for (const std::size_t i : {0, 1, 2}) block(i);
  // Threads 0, 1 and 2 wait in a cycle. The fourth thread, which runs, can end it.
  ASSERT_TRUE(awaitWaiters(threads[3]->client, 1, 2));
  ASSERT_TRUE(awaitWaiters(threads[3]->client, 0, 1));
  threads[3]->release(1);
  ASSERT_TRUE(eventually([&] { return waits[0]->decided() || waits[1]->decided(); }));
  const std::size_t first = waits[0]->decided() ? 0 : 1;
  EXPECT_EQ(waits[first]->status(), Status::kGranted);
  threads[first]->release(0);
  EXPECT_EQ(waits[2]->status(), Status::kGranted);
  threads[2]->release(0);
  threads[2]->release(1);
  EXPECT_EQ(waits[1 - first]->status(), Status::kGranted);
  threads[first]->release(1);
  threads[1 - first]->release(0);
  threads[1 - first]->release(1);
  EXPECT_TRUE(memory.isFree());
}

TEST_F(PermitCycle, IsNotRefusedIfABlockedThreadOutsideItCanEndIt) {
  // The fourth thread also blocks, but waits for a running thread.
  Holder running(memory);
  for (std::uint32_t i = 0; i < kLimit; ++i) running.hold(3);
  Blocking outside(threads[3]->client, {3}, kPermit);
  ASSERT_TRUE(awaitWaiters(running.client, 3, 1));
  for (const std::size_t i : {0, 1, 2}) block(i, kPermitForAWhile);
  for (const std::size_t i : {0, 1, 2}) EXPECT_EQ(waits[i]->status(), Status::kTimedOut) << i;
  for (std::uint32_t i = 0; i < kLimit; ++i) running.release(3);
  EXPECT_EQ(outside.status(), Status::kGranted);
  threads[3]->release(3);
}

TEST(PermitWait, IsNotRefusedIfAnotherHolderContinuesWhileItIsLookedAt) {
  const UsualSlices slices;
  struct Thread {
    Thread(SharedMemory& permits, SharedMemory& alone)
        : permits(environment, permits, false, kLimit), alone(environment, alone) {}
    Environment environment;
    Client permits;
    Client alone;
  };
  SharedMemory permits(1);
  SharedMemory alone(2);
  Thread other(permits, alone);
  Thread holder(permits, alone);
  Thread waiting(permits, alone);
  ASSERT_TRUE(other.permits.take(0, Mode::kShared));
  ASSERT_TRUE(holder.permits.take(0, Mode::kShared));
  ASSERT_TRUE(waiting.alone.take(0));
  ASSERT_TRUE(waiting.alone.take(1));
  // The number of threads that have entered the wait graph. After the first search of the third thread, the first
  // thread is granted its stripe.
  static std::atomic<int> entered{0};
  static Client* released = nullptr;
  entered.store(0);
  released = &waiting.alone;
  onSeam([](const char* point) {
    thread_local bool isIn = false;
    if (isIn || std::strcmp(point, "refuse: before the second look") != 0) return;
    isIn = true;
    if (entered.fetch_add(1) != 2) return;
    EXPECT_TRUE(released->releaseSlow(0));
  });
  Blocking first(other.alone, {0});
  Blocking second(holder.alone, {1});
  ASSERT_TRUE(eventually([] { return entered.load() == 2; }));
  Blocking third(waiting.permits, {0}, kPermit);
  EXPECT_EQ(first.status(), Status::kGranted);
  EXPECT_TRUE(other.permits.release({0}, Mode::kShared));
  EXPECT_EQ(third.status(), Status::kGranted);
  onSeam(nullptr);
  EXPECT_TRUE(waiting.alone.release({1}));
  EXPECT_EQ(second.status(), Status::kGranted);
}

TEST_F(PermitCycle, DoesNotCountAnAsyncHolderThatHasNotNoticedItsGrant) {
  // The ready list of a fifth thread has the second permit of stripe 1. That permit can be revoked.
  Holder fifth(memory);
  fifth.client.pend({1}, kPermit);
  ASSERT_TRUE(awaitWaiters(fifth.client, 1, 1));
  threads[3]->release(1);
  for (const std::size_t i : {0, 1, 2}) block(i, kPermitForAWhile);
  for (const std::size_t i : {0, 1, 2}) EXPECT_NE(waits[i]->status(), Status::kDeadlock) << i;
}

}  // namespace stripelock::test
