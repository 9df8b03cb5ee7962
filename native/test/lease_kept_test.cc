#include <gtest/gtest.h>

#include <cstring>

#include "core/lease_table.h"
#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr Nanoseconds kTtl = 1'000'000'000;
constexpr Nanoseconds kMost = 10 * kTtl;

// A lease that a thread keeps. `at`: the time of the grant, or kSteady.
struct Kept {
  explicit Kept(Nanoseconds at) : at(at) {
    EXPECT_NE(table.tryAcquire(claim("a", at), kTtl).token, 0u);
    EXPECT_TRUE(table.keep(claim("a", at), kTtl, kMost, keeper));
  }
  static LeaseTable::Claim claim(std::string_view owner, Nanoseconds at) {
    return {.key = KeyView("key"), .owner = owner, .at = at};
  }
  bool heldAt(Nanoseconds time) { return table.inspect(KeyView("key"), time).has_value(); }

  const Nanoseconds at;
  LeaseTable table{100};
  std::shared_ptr<LeaseKeeper> keeper = std::make_shared<LeaseKeeper>();
};

}  // namespace

TEST(LeaseKept, EndsWithinATtlAfterItsThread) {
  Kept kept(LeaseTable::kSteady);
  const Nanoseconds before = now();
  kept.keeper->end();
  const Nanoseconds after = now();
  EXPECT_TRUE(kept.heldAt(before + kTtl - 1));
  EXPECT_FALSE(kept.heldAt(after + kTtl));
  EXPECT_NE(kept.table.tryAcquire(Kept::claim("b", after + kTtl), kTtl).token, 0u);
}

TEST(LeaseKept, EndsWithinATtlAfterItsThreadEvenIfNobodyLookedForHours) {
  Kept kept(LeaseTable::kSteady);
  kept.keeper->end();
  EXPECT_FALSE(kept.heldAt(now() + kAnHour));
}

TEST(LeaseKept, DoesNotOutliveItsLimitWhenItsThreadEndsShortlyBefore) {
  LeaseTable table(100);
  const auto keeper = std::make_shared<LeaseKeeper>();
  const LeaseTable::Grant grant = table.tryAcquire(Kept::claim("a", LeaseTable::kSteady), kTtl);
  // The limit is its ttl, and the thread ends later than the grant.
  ASSERT_TRUE(table.keep(Kept::claim("a", LeaseTable::kSteady), kTtl, kTtl, keeper));
  keeper->end();
  EXPECT_TRUE(table.inspect(KeyView("key"), grant.since + kTtl - 1));
  EXPECT_FALSE(table.inspect(KeyView("key"), grant.since + kTtl));
}

TEST(LeaseKept, EndsAtItsDeadlineOnAClockOfTheCallersWhenItsThreadEnds) {
  Kept kept(0);
  EXPECT_TRUE(kept.heldAt(3 * kTtl));
  kept.keeper->end();
  EXPECT_TRUE(kept.heldAt(4 * kTtl - 1));
  EXPECT_FALSE(kept.heldAt(4 * kTtl));
  EXPECT_FALSE(kept.heldAt(5 * kTtl));
}

TEST(LeaseKept, IsExtendedOnceMoreAtMostIfItsThreadEndsJustAfterItWasAsked) {
  static LeaseKeeper* ends = nullptr;
  Kept kept(LeaseTable::kSteady);
  ends = kept.keeper.get();
  onSeam([](const char* point) {
    if (ends && std::strcmp(point, "extend kept: after the keeper was asked") == 0) ends->end();
  });
  const Nanoseconds look = now() + 2 * kTtl;
  EXPECT_TRUE(kept.heldAt(look));
  ends = nullptr;
  onSeam(nullptr);
  EXPECT_TRUE(kept.heldAt(look + kTtl - 1));
  EXPECT_FALSE(kept.heldAt(look + kTtl));
  EXPECT_FALSE(kept.heldAt(look + 2 * kTtl));
}

TEST(LeaseKept, HasALimitWithinTheRangeOfTheClock) {
  constexpr Nanoseconds kLongest = 4'398'046'511'104'000'000;
  LeaseTable table(100);
  const auto keeper = std::make_shared<LeaseKeeper>();
  EXPECT_NE(table.tryAcquire(Kept::claim("a", kLongest), kLongest).token, 0u);
  EXPECT_TRUE(table.keep(Kept::claim("a", kLongest), 1, kLongest, keeper));
  EXPECT_TRUE(table.inspect(KeyView("key"), 2 * kLongest));
}

TEST(LeaseKept, NeverEndsEarlierThanItWasRenewedTo) {
  Kept kept(0);
  EXPECT_TRUE(kept.table.renew(Kept::claim("a", kMost - 1), 5 * kTtl));
  EXPECT_TRUE(kept.heldAt(kMost + 5 * kTtl - 2));
  EXPECT_FALSE(kept.heldAt(kMost + 5 * kTtl - 1));
}

TEST(LeaseKept, IsNotKeptAfterANewGrantToTheSameOwner) {
  Kept kept(0);
  EXPECT_NE(kept.table.tryAcquire(Kept::claim("a", 1), kTtl).token, 0u);
  EXPECT_FALSE(kept.heldAt(kTtl + 1));
}

TEST(LeaseKept, LeavesNothingToTheNextLeaseInItsMemory) {
  Kept kept(0);
  EXPECT_TRUE(kept.table.release(Kept::claim("a", 1), nullptr));
  EXPECT_NE(kept.table.tryAcquire(Kept::claim("b", 1), kTtl).token, 0u);
  EXPECT_FALSE(kept.heldAt(kTtl + 1));
}

TEST(LeaseKept, EndsWithItsTimeOnceItIsLetGo) {
  Kept kept(0);
  EXPECT_FALSE(kept.table.letGo(Kept::claim("b", 1)));
  EXPECT_TRUE(kept.table.letGo(Kept::claim("a", 1)));
  EXPECT_TRUE(kept.heldAt(kTtl - 1));
  EXPECT_FALSE(kept.heldAt(kTtl));
}

TEST(LeaseKept, IsNotSweptWhileItsThreadLives) {
  Kept kept(LeaseTable::kSteady);
  EXPECT_FALSE(kept.table.sweepAll(now() + 5 * kTtl));
  EXPECT_TRUE(kept.heldAt(now() + 5 * kTtl));
  EXPECT_TRUE(kept.table.sweepAll(now() + kMost + kTtl));
}

}  // namespace stripelock::test
