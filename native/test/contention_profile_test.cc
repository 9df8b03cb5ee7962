// Tests which waits a profile of contention records, and how it marks the locks.

#include "core/table/contention_profile.h"

#include <array>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;

// Runs a profile during its lifetime.
struct Profiling {
  explicit Profiling(double threshold = 0, double every = 1e-6, std::vector<std::string> names = {}) {
    EXPECT_TRUE(profile.start(threshold, every, std::move(names)));
  }
  ~Profiling() { profile.stop(); }
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;

  ContentionProfile& profile = ContentionProfile::instance();
};

Draw drawn(Peer& peer) { return std::exchange(peer.environment.participant().draw, Draw::kNone); }

class Profiled : public HeldStripe {
 protected:
  Profiling profiling;
  Peer waiter{memory};
};

}  // namespace

TEST(ContentionProfile, LeavesOutWaitsBelowItsThreshold) {
  const Profiling on(2, 1);
  EXPECT_EQ(on.profile.draw(2 * kMillisecond - 1), Draw::kLeftOut);
  EXPECT_TRUE(isRecorded(on.profile.draw(2 * kMillisecond)));
}

TEST(ContentionProfile, RecordsShortWaitsInProportion) {
  int recorded = 0;
  // Each profile records too few waits to raise the sampling time.
  for (int i = 0; i < 24; ++i) {
    const Profiling on(0, 10);
    for (int j = 0; j < 100; ++j) recorded += on.profile.draw(kMillisecond) >= Draw::kRecorded ? 1 : 0;
    EXPECT_EQ(on.profile.every(), 10 * kMillisecond);
  }
  EXPECT_GT(recorded, 165);
  EXPECT_LT(recorded, 315);
}

TEST(ContentionProfile, RecordsFewerWhileThousandsWait) {
  const Profiling on(0, 10);
  int recorded = 0;
  for (int i = 0; i < 100'000; ++i) recorded += on.profile.draw(20 * kMillisecond) >= Draw::kRecorded ? 1 : 0;
  EXPECT_LT(recorded, 3000);
  EXPECT_GT(on.profile.every(), 100 * kMillisecond);
  EXPECT_TRUE(isRecorded(on.profile.draw(on.profile.every())));
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    on.profile.draw(3'600'000 * kMillisecond);
    return on.profile.every() == 10 * kMillisecond;
  }));
}

TEST(ContentionProfile, KeepsWhatIsAddedUntilItIsTakenAndCountsWhatHasNoRoom) {
  constexpr std::size_t kMost = 16'384;
  Draw draw = Draw::kNone;
  {
    const Profiling on;
    draw = on.profile.draw(kMillisecond);
    on.profile.add("one", draw);
    EXPECT_EQ(on.profile.take().records, std::vector<std::string>{"one"});
    for (std::size_t i = 0; i < kMost + 5; ++i) on.profile.add(std::to_string(i), draw);
    const ContentionProfile::Taken taken = on.profile.take();
    EXPECT_EQ(taken.records.size(), kMost);
    EXPECT_EQ(taken.records.back(), std::to_string(kMost - 1));
    EXPECT_EQ(taken.leftOut, 5u);
    EXPECT_EQ(on.profile.take().leftOut, 0u);
    EXPECT_FALSE(on.profile.start(0, 1, {}));
  }
  ContentionProfile::instance().add("late", draw);
  EXPECT_TRUE(ContentionProfile::instance().take().records.empty());
}

TEST(ContentionProfile, StartsWithoutTheRecordsAndThePaceOfTheOneBefore) {
  constexpr std::size_t kMost = 16'384;
  {
    const Profiling before(0, 10);
    const Draw draw = before.profile.draw(10 * kMillisecond);
    for (std::size_t i = 0; i < kMost + 5; ++i) before.profile.add("before", draw);
    for (int i = 0; i < 1000; ++i) before.profile.draw(20 * kMillisecond);
    EXPECT_GT(before.profile.every(), 10 * kMillisecond);
  }
  const Profiling on(0, 10);
  EXPECT_EQ(on.profile.every(), 10 * kMillisecond);
  const ContentionProfile::Taken taken = on.profile.take();
  EXPECT_TRUE(taken.records.empty());
  EXPECT_EQ(taken.leftOut, 0u);
}

// A thread draws when it gets the key, and adds its record later. Meanwhile another profile can start.
TEST(ContentionProfile, DropsRecordsThatWereDrawnForAnEarlierOne) {
  std::vector<Draw> earlier;
  for (int i = 0; i < 250; ++i) {
    const Profiling on;
    for (const Draw draw : earlier) on.profile.add("earlier", draw);
    earlier.push_back(on.profile.draw(kMillisecond));
    on.profile.add("own", earlier.back());
    EXPECT_EQ(on.profile.take().records, std::vector<std::string>{"own"}) << "profile " << i;
  }
}

TEST(ContentionProfile, MarksLocksByTheirNamesAlsoThoseThatAreOpenedLater) {
  SharedMemory wanted(1);
  SharedMemory other(1);
  SharedMemory late(1);
  Environment environment;
  Registry& registry = Registry::instance();
  const auto open = [&](SharedMemory& memory, const std::string& name) {
    return registry.open(environment.participant(), memory.data(), 1, false, 1, name);
  };
  Membership* const one = open(wanted, "wanted");
  Membership* const two = open(other, "other");
  // An earlier lock on this memory may have left the flag set.
  static_cast<Word*>(other.data())[kObservedInt].store(kObserveProfile);
  {
    const Profiling on(0, 1, {"wanted"});
    Membership* const three = open(late, "wanted");
    EXPECT_EQ(one->table().observed().load(), kObserveProfile);
    EXPECT_EQ(two->table().observed().load(), 0u);
    EXPECT_EQ(three->table().observed().load(), kObserveProfile);
    registry.close(*three);
  }
  EXPECT_EQ(one->table().observed().load(), 0u);
  Membership* const again = open(late, "wanted");
  EXPECT_EQ(again->table().observed().load(), 0u);
  for (Membership* const membership : {one, two, again}) registry.close(*membership);
}

TEST(ContentionProfile, MarksTheCellsOfThreadsByTheirNamesAlsoThoseThatAreOpenedLater) {
  std::array<CountCell, LockMetrics::kThreadCells> wanted{};
  std::array<CountCell, LockMetrics::kThreadCells> other{};
  std::array<CountCell, LockMetrics::kThreadCells> late{};
  Environment environment;
  const auto open = [&](std::array<CountCell, LockMetrics::kThreadCells>& cells, const std::string& name) {
    Registry::instance().openCounts(environment.participant(), {.kind = LockKind::kLease, .name = name},
                                    cells.data());
  };
  const auto isMarked = [](const std::array<CountCell, LockMetrics::kThreadCells>& cells) {
    return (static_cast<std::uint32_t>(cells[LockMetrics::kObserved].load()) & kObserveProfile) != 0;
  };
  open(wanted, "wanted cells");
  open(other, "other cells");
  {
    const Profiling on(0, 1, {"wanted cells"});
    open(late, "wanted cells");
    EXPECT_TRUE(isMarked(wanted));
    EXPECT_FALSE(isMarked(other));
    EXPECT_TRUE(isMarked(late));
  }
  EXPECT_FALSE(isMarked(wanted));
  EXPECT_FALSE(isMarked(late));
}

TEST(ContentionProfile, RecordsAReleaseOfALeaseWhileAWaitForItIsLongEnough) {
  const Profiling on(3'600'000, 1);
  ContentionProfile& profile = on.profile;
  const int thread = 0;
  const Nanoseconds hour = 3'600'000 * kMillisecond;
  EXPECT_FALSE(isRecorded(profile.drawLeaseRelease("a")));
  const std::uint64_t brief = profile.beginLeaseWait(&thread, "a", now());
  EXPECT_FALSE(isRecorded(profile.drawLeaseRelease("a")));
  const std::uint64_t lasting = profile.beginLeaseWait(&thread, "a", now() - 2 * hour);
  EXPECT_TRUE(isRecorded(profile.drawLeaseRelease("a")));
  EXPECT_FALSE(isRecorded(profile.drawLeaseRelease("")));
  EXPECT_FALSE(isRecorded(profile.drawLeaseRelease("b")));
  EXPECT_TRUE(isRecorded(profile.endLeaseWait(lasting)));
  EXPECT_FALSE(isRecorded(profile.drawLeaseRelease("a")));
  EXPECT_FALSE(isRecorded(profile.endLeaseWait(brief)));
  EXPECT_FALSE(isRecorded(profile.endLeaseWait(lasting)));
}

TEST(ContentionProfile, RecordsShortWaitsForLeasesInProportion) {
  const int thread = 0;
  int recorded = 0;
  // As above. A wait and the releases during it agree.
  for (int i = 0; i < 24; ++i) {
    const Profiling on(0, 3'600'000);
    for (int j = 0; j < 100; ++j) {
      const std::uint64_t wait = on.profile.beginLeaseWait(&thread, "place", now() - 360'000 * kMillisecond);
      const bool released = isRecorded(on.profile.drawLeaseRelease("place"));
      const bool ended = isRecorded(on.profile.endLeaseWait(wait));
      EXPECT_EQ(released, ended);
      recorded += ended ? 1 : 0;
    }
  }
  EXPECT_GT(recorded, 165);
  EXPECT_LT(recorded, 315);
}

TEST(ContentionProfile, ForgetsTheWaitsForLeasesOfAnEarlierOneAndOfThreadsThatEnd) {
  const int ended = 0;
  const int alive = 0;
  std::uint64_t earlier = 0;
  {
    const Profiling before;
    earlier = before.profile.beginLeaseWait(&alive, "earlier", 0);
  }
  const std::uint64_t without = ContentionProfile::instance().beginLeaseWait(&alive, "without", 0);
  const Profiling on;
  ContentionProfile& profile = on.profile;
  EXPECT_FALSE(isRecorded(profile.drawLeaseRelease("earlier")));
  EXPECT_FALSE(isRecorded(profile.endLeaseWait(earlier)));
  EXPECT_FALSE(isRecorded(profile.endLeaseWait(without)));
  for (int i = 0; i < 3; ++i) profile.beginLeaseWait(&ended, "ended", 0);
  const std::uint64_t left = profile.beginLeaseWait(&alive, "alive", 0);
  profile.leaveLeaseWaits(&ended);
  EXPECT_FALSE(isRecorded(profile.drawLeaseRelease("ended")));
  EXPECT_TRUE(isRecorded(profile.drawLeaseRelease("alive")));
  EXPECT_TRUE(isRecorded(profile.endLeaseWait(left)));
}

TEST_F(Profiled, WaitOfABlockedThreadIsRecordedByBothThreads) {
  Blocking blocked(waiter.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  handOver();
  EXPECT_EQ(blocked.status(), Status::kGranted);
  EXPECT_TRUE(isRecorded(drawn(holder)));
  EXPECT_TRUE(isRecorded(drawn(waiter)));
}

TEST_F(Profiled, WaitOfADesignatedThreadIsRecordedByBothThreads) {
  Blocking blocked(waiter.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  designate();
  EXPECT_EQ(blocked.status(), Status::kGranted);
  EXPECT_TRUE(isRecorded(drawn(holder)));
  EXPECT_TRUE(isRecorded(drawn(waiter)));
}

TEST_F(Profiled, WaitOnAnEventLoopIsRecordedByBothThreads) {
  waiter.client.pend({0});
  handOver();
  const std::vector<AsyncWaits::Granted> grants = awaitGrants(waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_TRUE(isRecorded(grants[0].draw));
  EXPECT_TRUE(isRecorded(drawn(holder)));
}

TEST_F(Profiled, ReleaseThatNobodyWaitedForDrawsNothing) {
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(drawn(holder), Draw::kNone);
  ASSERT_TRUE(holder.client.take(0));
  EXPECT_TRUE(holder.client.releaseSlow(0));
  EXPECT_EQ(drawn(holder), Draw::kNone);
}

TEST(ContentionProfile, DrawsNothingWhileNoneIsTaken) {
  Three of;
  ASSERT_TRUE(of.holder.client.take(0));
  Blocking blocked(of.waiter.client, {0});
  ASSERT_TRUE(awaitWaiters(of.holder.client, 0, 1));
  EXPECT_TRUE(of.holder.client.release({0}));
  EXPECT_EQ(blocked.status(), Status::kGranted);
  EXPECT_EQ(drawn(of.holder), Draw::kNone);
  EXPECT_EQ(drawn(of.waiter), Draw::kNone);
}

// Profiles start and stop while threads wait and release.
TEST(ContentionProfile, MayBeTakenWhileThreadsWait) {
  SharedMemory memory(1);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      Peer peer(memory);
      while (!done.load()) {
        ASSERT_EQ(peer.client.sync({0}), Status::kGranted);
        ASSERT_TRUE(peer.client.release({0}));
        if (const Draw draw = drawn(peer); isRecorded(draw)) ContentionProfile::instance().add("wait", draw);
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const Profiling on;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    on.profile.take();
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(memory.isFree());
}

}  // namespace stripelock::test
