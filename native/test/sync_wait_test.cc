// Sync waits that the host interrupts, and how long a thread sleeps before it checks.

#include <atomic>

#include <gtest/gtest.h>

#include "core/table/sync_wait.h"
#include "test/support.h"

namespace stripelock::test {

TEST(SyncWait, EndsWhenItsThreadIsInterrupted) {
  const UsualSlices slices;
  SharedMemory memory(3);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(2));
  std::atomic<bool> ending{false};
  const auto requested = [](void* flag) { return static_cast<std::atomic<bool>*>(flag)->load(); };
  Blocking blocking(waiter.client, {0, 2}, {}, {.requested = requested, .data = &ending});
  ASSERT_TRUE(awaitWaiters(holder.client, 2, 1));
  EXPECT_FALSE(blocking.decided());
  ending.store(true);
  EXPECT_EQ(blocking.status(), Status::kInterrupted);
  EXPECT_EQ(countHeld(holder.client.table()), 1u);
  EXPECT_EQ(waitersOf(holder.client, 2), 0u);
  EXPECT_EQ(memory.word(2).load(), holder.slot());
}

TEST(SyncWait, AsksWhetherItIsInterruptedAboutOnceASlice) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  std::atomic<int> asked{0};
  const auto requested = [](void* count) {
    static_cast<std::atomic<int>*>(count)->fetch_add(1);
    return false;
  };
  // Waits until the interrupts in other tests no longer make threads hurry.
  ASSERT_TRUE(eventually([] { return !hurrying(now()); }));
  Blocking blocking(waiter.client, {0}, {.timeout = 150}, {.requested = requested, .data = &asked});
  EXPECT_EQ(blocking.status(), Status::kTimedOut);
  // The thread checks at 5, 25, … 145 ms. On a busy machine it checks less often, but never more often.
  EXPECT_GE(asked.load(), 1);
  EXPECT_LE(asked.load(), 1 + static_cast<int>((blocking.milliseconds() * 1e6 - kFirstSlice) / kSlice) + 1);
}

TEST(SyncWait, GivesBackWhatItIsGrantedAsItsThreadIsInterrupted) {
  const UsualSlices slices;
  SharedMemory memory(3);
  Peer holder(memory);
  Peer waiter(memory);
  for (const Mode mode : kEachMode) {
    ASSERT_TRUE(holder.client.take(1));
    const auto ending = [](void*) { return true; };
    // Stops the thread before the end of its first slice.
    Barrier parking("wait: before parking");
    Blocking blocking(waiter.client, {0, 1, 2}, {.mode = mode}, {.ending = ending});
    ASSERT_TRUE(parking.awaitArrival());
    makeHandOverDue(holder.client, 1);
    EXPECT_TRUE(holder.client.release({1}));
    EXPECT_EQ(countHeld(holder.client.table()), 3u);
    parking.open();
    EXPECT_EQ(blocking.status(), Status::kInterrupted);
    EXPECT_TRUE(memory.isFree());
    for (const std::uint32_t stripe : {0u, 1u, 2u}) {
      EXPECT_EQ(waiter.client.membership().sharesOf(stripe), 0u);
    }
  }
  EXPECT_EQ(memory.cell(kWaitingCell), 0);
  EXPECT_EQ(memory.cell(kAbandonedCell), 0);
}

TEST(SyncWait, LooksOftenAfterAnotherThreadWasInterrupted) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer first(memory);
  Peer second(memory);
  ASSERT_TRUE(holder.client.take(0));
  struct Asked {
    std::atomic<int> times{0};
    std::atomic<bool> ending{false};
  };
  Asked ofFirst;
  Asked ofSecond;
  const auto requested = [](void* data) {
    auto& asked = *static_cast<Asked*>(data);
    asked.times.fetch_add(1);
    return asked.ending.load();
  };
  ASSERT_TRUE(eventually([] { return !hurrying(now()); }));
  Blocking one(first.client, {0}, {}, {.requested = requested, .data = &ofFirst});
  Blocking other(second.client, {0}, {}, {.requested = requested, .data = &ofSecond});
  ASSERT_TRUE(eventually([&] { return ofSecond.times.load() > 0; }));
  ofFirst.ending.store(true);
  EXPECT_EQ(one.status(), Status::kInterrupted);
  const Nanoseconds start = now();
  const int before = ofSecond.times.load();
  constexpr int kLooks = 12;
  ASSERT_TRUE(eventually([&] { return ofSecond.times.load() >= before + kLooks; }));
  // If each check took kSlice, the checks would take 240 ms. The first check may still be up to kSlice away.
  EXPECT_LT(now() - start, kLooks * kSlice / 2);
  ofSecond.ending.store(true);
  EXPECT_EQ(other.status(), Status::kInterrupted);
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

}  // namespace stripelock::test
