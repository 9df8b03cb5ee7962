// Sync waits whose host wants the thread back, and how long a thread sleeps before it checks.

#include <algorithm>
#include <array>
#include <atomic>

#if defined(__linux__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <gtest/gtest.h>

#include "core/sync_wait.h"
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
  // No thread of another test was interrupted just now.
  ASSERT_TRUE(eventually([] { return !hurrying(now()); }));
  Blocking blocking(waiter.client, {0}, {.timeout = 150}, {.requested = requested, .data = &asked});
  EXPECT_EQ(blocking.status(), Status::kTimedOut);
  // At 5, 25, … 145 ms; fewer where the machine was busy, never more.
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
    // Before the end of its first slice.
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
  // With kSlice each they would take 240 ms. The first of them may still be that long.
  EXPECT_LT(now() - start, kLooks * kSlice / 2);
  ofSecond.ending.store(true);
  EXPECT_EQ(other.status(), Status::kInterrupted);
}

#if defined(__linux__) || defined(__APPLE__)

namespace {

// Stands for the host's event loop, through which a thread is told to end.
class EventLoop {
 public:
  EventLoop() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~EventLoop() {
    for (const int end : ends_) close(end);
  }
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  Interrupt interrupt() { return {.requested = requested, .data = this, .descriptor = ends_[0]}; }
  int asked() const { return asked_.load(); }
  void stir() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  void end() {
    ending_.store(true);
    stir();
  }

 private:
  static bool requested(void* self) {
    auto& loop = *static_cast<EventLoop*>(self);
    loop.asked_.fetch_add(1);
    return loop.ending_.load();
  }

  std::array<int, 2> ends_{};
  std::atomic<int> asked_{0};
  std::atomic<bool> ending_{false};
};

}  // namespace

TEST(SyncWait, IsWokenFromALongSliceByWhatItsHostTellsItsEventLoop) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  Nanoseconds quickest = std::numeric_limits<Nanoseconds>::max();
  for (int round = 0; round < 5; ++round) {
    EventLoop loop;
    Blocking blocking(waiter.client, {0}, {}, loop.interrupt());
    // Its slices have grown, and one has just begun.
    const Nanoseconds start = now();
    ASSERT_TRUE(eventually([&] { return now() - start > kPatience * kLongestSlice; }));
    const int asked = loop.asked();
    ASSERT_TRUE(eventually([&] { return loop.asked() > asked; }));
    const Nanoseconds ending = now();
    loop.end();
    EXPECT_EQ(blocking.status(), Status::kInterrupted);
    quickest = std::min(quickest, now() - ending);
    EXPECT_EQ(waitersOf(holder.client, 0), 0u);
  }
  // By itself it would look at the end of the slice. One quick round shows that it was woken, and at least one round
  // is not held up by other load on the machine.
  EXPECT_LT(quickest, kLongestSlice / 4);
}

TEST(SyncWait, SleepsLongerTheLongerItHasSleptWhereItsHostWakesIt) {
  const UsualSlices usual;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  EventLoop loop;
  constexpr double kWaited = 1600;
  Blocking blocking(waiter.client, {0}, {.timeout = kWaited}, loop.interrupt());
  EXPECT_EQ(blocking.status(), Status::kTimedOut);
  const double slices = (blocking.milliseconds() - kWaited / 2) * 1e6 / static_cast<double>(kLongestSlice);
  // In the first half at most as often as ever; then with the longest slices.
  EXPECT_LE(loop.asked(), kWaited / 2 * 1e6 / kSlice + slices + 2);
}

TEST(SyncWait, FindsACycleThatClosesWhileAllOfItSleepsLong) {
  const UsualSlices slices;
  double quickest = kStuck;
  for (int round = 0; round < 3; ++round) {
    SharedMemory memory(3);
    Peer holder(memory);
    Peer one(memory);
    Peer other(memory);
    EventLoop ofOne;
    EventLoop ofOther;
    ASSERT_TRUE(holder.client.take(1));
    ASSERT_TRUE(one.client.take(2));
    Blocking both(other.client, {1, 2}, {}, ofOther.interrupt());
    ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
    Blocking behind(one.client, {1}, {}, ofOne.interrupt());
    const Nanoseconds start = now();
    ASSERT_TRUE(eventually([&] { return now() - start > kPatience * kLongestSlice; }));
    // From here on the other has the first of its stripes, in its sleep, and waits for the holder of the second.
    makeHandOverDue(holder.client, 1);
    const Nanoseconds closed = now();
    EXPECT_TRUE(holder.client.release({1}));
    ASSERT_TRUE(eventually([&] { return both.decided() || behind.decided(); }));
    quickest = std::min(quickest, milliseconds(now() - closed));
    // If the other was refused, this one has the stripe that it gave back.
    if (behind.decided() && behind.status() != Status::kGranted) {
      EXPECT_EQ(behind.status(), Status::kDeadlock);
      EXPECT_TRUE(one.client.release({2}));
      EXPECT_EQ(both.status(), Status::kGranted);
      EXPECT_TRUE(other.client.release({1, 2}));
    } else {
      EXPECT_EQ(both.status(), Status::kDeadlock);
      EXPECT_EQ(behind.status(), Status::kGranted);
      EXPECT_TRUE(one.client.release({1, 2}));
    }
    EXPECT_TRUE(memory.isFree());
  }
  // What docs/guarantees.md promises. Other load on the machine may hold up a round.
  EXPECT_LT(quickest, 100);
}

TEST(SyncWait, GoesOnWaitingWhenItsEventLoopStirsForAnotherReason) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  EventLoop loop;
  loop.stir();
  Blocking blocking(waiter.client, {0}, {}, loop.interrupt());
  ASSERT_TRUE(eventually([&] { return loop.asked() > 0; }));
  for (int i = 0; i < 5; ++i) {
    const int asked = loop.asked();
    loop.stir();
    EXPECT_TRUE(eventually([&] { return loop.asked() > asked; }));
  }
  EXPECT_FALSE(blocking.decided());
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(waiter.client.release({0}));
  EXPECT_TRUE(memory.isFree());
}

#endif

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
