#include "core/sync_wait.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#if defined(__linux__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

// What a timeout may take longer than it says, on a loaded machine.
constexpr double kLate = 5'000;

bool allFree(SharedMemory& memory) {
  for (std::uint32_t stripe = 0; stripe < memory.stripes(); ++stripe) {
    if (memory.word(stripe).load() != 0) return false;
  }
  return true;
}

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
  EXPECT_TRUE(allFree(memory));
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
  EXPECT_TRUE(allFree(memory));
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
  EXPECT_TRUE(allFree(memory));
}

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
    EXPECT_TRUE(allFree(memory));
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
  // Of kSlice each they would take 240 ms; the first of them may still be that long.
  EXPECT_LT(now() - start, kLooks * kSlice / 2);
  ofSecond.ending.store(true);
  EXPECT_EQ(other.status(), Status::kInterrupted);
}

#if defined(__linux__) || defined(__APPLE__)

namespace {

// What a host has where a thread is told to end.
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
  // By itself it would look at the end of the slice. Any round shows that it was woken, and some round is not held up
  // by whatever else runs on the machine.
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
  // In the first half as often as ever, at the most; then with the longest slices.
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
    // The other has the first of its stripes from here on, in its sleep, and waits for the one that holds the second.
    makeHandOverDue(holder.client, 1);
    const Nanoseconds closed = now();
    EXPECT_TRUE(holder.client.release({1}));
    ASSERT_TRUE(eventually([&] { return both.decided() || behind.decided(); }));
    quickest = std::min(quickest, milliseconds(now() - closed));
    // Where the other was refused, this one has the stripe that it gave back.
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
    EXPECT_TRUE(allFree(memory));
  }
  // What README.md promises. A round may be held up by whatever else runs on the machine.
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
  EXPECT_TRUE(allFree(memory));
}

#endif

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
    ASSERT_TRUE(allFree(memory));
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
  EXPECT_TRUE(allFree(memory));
}

}  // namespace stripelock::test
