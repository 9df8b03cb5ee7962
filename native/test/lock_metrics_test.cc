// The combined counts of all locks with one name.

#include <string>

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

namespace {

LockMetrics of(const std::string& name) {
  const std::map<std::string, LockMetrics> all = Registry::instance().metrics();
  const auto found = all.find(name);
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
  EXPECT_EQ(sum.locks, 2u);
  EXPECT_EQ(sum.held, 1u);
  EXPECT_EQ(sum.timeouts, before.timeouts + 5);
  EXPECT_EQ(sum.waits[4], before.waits[4] + 7);
  EXPECT_EQ(sum.nanoseconds, before.nanoseconds + 9);
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
  EXPECT_EQ(of("stays").contended, before.contended + 4);
  EXPECT_EQ(of("stays").locks, 1u);
  Registry::instance().close(*also);
  const LockMetrics ended = of("stays");
  EXPECT_EQ(ended.contended, before.contended + 4);
  EXPECT_EQ(ended.waits[0], before.waits[0] + 4);
  EXPECT_EQ(ended.locks, 0u);
}

// A handle of a closed lock remains, so a thread can open the lock again.
TEST(LockMetrics, OfALockThatIsOpenedAgainCountOnce) {
  Environment environment;
  SharedMemory memory(2);
  Registry& registry = Registry::instance();
  const std::uint64_t before = of("again").timeouts;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    Membership* const opened = registry.open(environment.participant(), memory.data(), 2, false, 1, "again");
    opened->table().cell(kTimeoutsCell).fetch_add(10);
    EXPECT_EQ(of("again").timeouts, before + 10 * round);
    registry.close(*opened);
    EXPECT_EQ(of("again").timeouts, before + 10 * round);
  }
}

TEST(LockMetrics, OfTooManyNamesThatAreGoneAreUnderNoName) {
  Environment environment;
  const std::uint64_t before = of("").aborts;
  for (int i = 0; i < 1500; ++i) {
    Named lock(environment, "many " + std::to_string(i));
    lock.table().cell(kAbortsCell).store(1);
    lock.close();
  }
  EXPECT_GE(of("").aborts, before + 500);
  EXPECT_LE(Registry::instance().metrics().size(), 1001u);
}

}  // namespace stripelock::test
