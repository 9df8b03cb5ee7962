// The combined counts of all locks with one name.

#include <array>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

namespace {

LockMetrics of(const std::string& name, LockKind kind = LockKind::kLock) {
  const std::map<MetricName, LockMetrics> all = Registry::instance().metrics();
  const auto found = all.find({.kind = kind, .name = name});
  return found == all.end() ? LockMetrics{} : found->second;
}

// A lock with a name.
struct Named {
  Named(Environment& environment, const std::string& name)
      : membership(Registry::instance().open(environment.participant(), memory.data(), 2, false, 1, name)) {}
  void close() { Registry::instance().close(*membership); }
  Table& table() const { return membership->table(); }

  SharedMemory memory{2};
  Membership* const membership;
};

// A thread's counts of the leases of one name, in the order of LockMetrics.
struct ThreadCells {
  ThreadCells(Environment& environment, const std::string& name) {
    Registry::instance().openCounts(environment.participant(), {.kind = LockKind::kLease, .name = name},
                                    cells.data());
  }
  CountCell& held() { return cells[LockMetrics::kHeld]; }
  CountCell& waiting() { return cells[LockMetrics::kWaiting]; }
  CountCell& timeouts() { return cells[LockMetrics::kTimeouts]; }
  CountCell& losses() { return cells[LockMetrics::kLosses]; }
  CountCell& nanoseconds() { return cells[LockMetrics::kNanoseconds]; }
  CountCell& range(std::size_t at) { return cells[LockMetrics::kWaits + at]; }

  std::array<CountCell, LockMetrics::kThreadCells> cells{};
};

}  // namespace

TEST(LockMetrics, AreAddedUpByNames) {
  Environment environment;
  const LockMetrics before = of("added up");
  Named one(environment, "added up");
  Named two(environment, "added up");
  Named other(environment, "another");
  one.table().cell(kTimeoutsCell).store(2);
  two.table().cell(kTimeoutsCell).store(3);
  other.table().cell(kTimeoutsCell).store(100);
  two.table().cell(kWaitTimes + 4).store(7);
  two.table().cell(kWaitedNanoseconds).store(9);
  one.memory.word(1).store(environment.slot());
  const LockMetrics sum = of("added up");
  EXPECT_EQ(sum[LockMetrics::kLocks], 2u);
  EXPECT_EQ(sum[LockMetrics::kHeld], 1u);
  EXPECT_EQ(sum[LockMetrics::kTimeouts], before[LockMetrics::kTimeouts] + 5);
  EXPECT_EQ(sum[LockMetrics::kWaits + 4], before[LockMetrics::kWaits + 4] + 7);
  EXPECT_EQ(sum[LockMetrics::kNanoseconds], before[LockMetrics::kNanoseconds] + 9);
  one.memory.word(1).store(0);
  for (Named* const lock : {&one, &two, &other}) lock->close();
}

TEST(LockMetrics, StayWhenTheLastThreadLeavesALock) {
  Environment environment;
  Environment second;
  const LockMetrics before = of("stays");
  Named lock(environment, "stays");
  Membership* const also =
      Registry::instance().open(second.participant(), lock.memory.data(), 2, false, 1, "stays");
  lock.table().cell(kContendedCell).store(4);
  lock.table().cell(kWaitTimes).store(4);
  lock.close();
  EXPECT_EQ(of("stays")[LockMetrics::kContended], before[LockMetrics::kContended] + 4);
  EXPECT_EQ(of("stays")[LockMetrics::kLocks], 1u);
  Registry::instance().close(*also);
  const LockMetrics ended = of("stays");
  EXPECT_EQ(ended[LockMetrics::kContended], before[LockMetrics::kContended] + 4);
  EXPECT_EQ(ended[LockMetrics::kWaits + 0], before[LockMetrics::kWaits + 0] + 4);
  EXPECT_EQ(ended[LockMetrics::kLocks], 0u);
}

// A handle of a closed lock remains, so a thread can open the lock again.
TEST(LockMetrics, OfALockThatIsOpenedAgainCountOnce) {
  Environment environment;
  SharedMemory memory(2);
  Registry& registry = Registry::instance();
  const std::uint64_t before = of("again")[LockMetrics::kTimeouts];
  for (std::uint64_t round = 1; round <= 3; ++round) {
    Membership* const opened = registry.open(environment.participant(), memory.data(), 2, false, 1, "again");
    opened->table().cell(kTimeoutsCell).fetch_add(10);
    EXPECT_EQ(of("again")[LockMetrics::kTimeouts], before + 10 * round);
    registry.close(*opened);
    EXPECT_EQ(of("again")[LockMetrics::kTimeouts], before + 10 * round);
  }
}

TEST(LockMetrics, AddUpWhatSeveralThreadsCount) {
  Environment first;
  Environment second;
  ThreadCells one(first, "both count");
  ThreadCells two(second, "both count");
  one.held().store(1);
  two.held().store(2);
  two.waiting().store(3);
  one.losses().store(4);
  two.losses().store(5);
  one.nanoseconds().store(6);
  one.range(kWaitRanges - 1).store(7);
  two.range(kWaitRanges - 1).store(8);
  const LockMetrics sum = of("both count", LockKind::kLease);
  EXPECT_EQ(sum[LockMetrics::kHeld], 3u);
  EXPECT_EQ(sum[LockMetrics::kWaiting], 3u);
  EXPECT_EQ(sum[LockMetrics::kLosses], 9u);
  EXPECT_EQ(sum[LockMetrics::kNanoseconds], 6u);
  EXPECT_EQ(sum[LockMetrics::kWaits + kWaitRanges - 1], 15u);
  EXPECT_EQ(of("both count")[LockMetrics::kLosses], 0u);
}

TEST(LockMetrics, KeepWhatAThreadCountedBeforeItsEnd) {
  const LockMetrics before = of("ended thread", LockKind::kLease);
  {
    Environment ending;
    ThreadCells cells(ending, "ended thread");
    cells.held().store(2);
    cells.waiting().store(1);
    cells.timeouts().store(5);
    cells.range(3).store(4);
    ending.end();
    // The registry does not read the memory again.
    cells.timeouts().store(1000);
  }
  const LockMetrics after = of("ended thread", LockKind::kLease);
  EXPECT_EQ(after[LockMetrics::kHeld], 0u);
  EXPECT_EQ(after[LockMetrics::kWaiting], 0u);
  EXPECT_EQ(after[LockMetrics::kAbandoned], before[LockMetrics::kAbandoned] + 2);
  EXPECT_EQ(after[LockMetrics::kTimeouts], before[LockMetrics::kTimeouts] + 5);
  EXPECT_EQ(after[LockMetrics::kWaits + 3], before[LockMetrics::kWaits + 3] + 4);
}

TEST(LockMetrics, IgnoreCellsWithoutACount) {
  Environment environment;
  ThreadCells cells(environment, "odd numbers");
  cells.timeouts().store(-1);
  cells.losses().store(std::numeric_limits<double>::quiet_NaN());
  cells.nanoseconds().store(std::numeric_limits<double>::infinity());
  const LockMetrics odd = of("odd numbers", LockKind::kLease);
  EXPECT_EQ(odd[LockMetrics::kTimeouts] + odd[LockMetrics::kLosses] + odd[LockMetrics::kNanoseconds], 0u);
}

// This must be the last test, because later tests would have no separate names.
TEST(LockMetrics, OfTooManyNamesThatAreGoneAreUnderNoName) {
  Environment environment;
  const std::uint64_t before = of("")[LockMetrics::kAborts];
  for (int i = 0; i < 1500; ++i) {
    Named lock(environment, "many " + std::to_string(i));
    lock.table().cell(kAbortsCell).store(1);
    lock.close();
  }
  EXPECT_GE(of("")[LockMetrics::kAborts], before + 500);
  EXPECT_LE(Registry::instance().metrics().size(), 1001u);
}

}  // namespace stripelock::test
