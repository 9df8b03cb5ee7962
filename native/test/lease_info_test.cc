#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "core/lease_table.h"
#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr Nanoseconds kTtl = 1000;

LeaseTable::Claim claimOf(std::string_view key, std::string_view owner, Nanoseconds at = 0) {
  return {.key = KeyView(key), .owner = owner, .at = at};
}

std::string infoOf(LeaseTable& table, std::string_view key, Nanoseconds at = 0) {
  const auto found = table.inspect(KeyView(key), at);
  return found ? found->info : "nobody holds it";
}

}  // namespace

TEST(LeaseInfo, StaysWithTheLeaseUntilItIsReplacedOrRemoved) {
  LeaseTable table{100};
  table.tryAcquire(claimOf("key", "a"), kTtl);
  EXPECT_EQ(infoOf(table, "key"), "");
  EXPECT_TRUE(table.setInfo(claimOf("key", "a"), "one"));
  EXPECT_TRUE(table.renew(claimOf("key", "a"), 2 * kTtl));
  EXPECT_EQ(infoOf(table, "key"), "one");
  EXPECT_TRUE(table.setInfo(claimOf("key", "a"), "two"));
  EXPECT_EQ(infoOf(table, "key"), "two");
  EXPECT_TRUE(table.setInfo(claimOf("key", "a"), ""));
  EXPECT_EQ(infoOf(table, "key"), "");
}

TEST(LeaseInfo, IsOfTheOwnerOnly) {
  LeaseTable table{100};
  EXPECT_FALSE(table.setInfo(claimOf("key", "a"), "free"));
  table.tryAcquire(claimOf("key", "a"), kTtl);
  EXPECT_FALSE(table.setInfo(claimOf("key", "b"), "foreign"));
  EXPECT_FALSE(table.setInfo(claimOf("key", "a", kTtl), "too late"));
  EXPECT_EQ(infoOf(table, "key"), "");
}

TEST(LeaseInfo, GoesWithTheLease) {
  LeaseTable table{100};
  for (const std::string_view next : {"b", "a"}) {
    table.tryAcquire(claimOf("key", "a"), kTtl);
    table.setInfo(claimOf("key", "a"), "old");
    table.release(claimOf("key", "a"), nullptr);
    table.tryAcquire(claimOf("key", next), kTtl);
    EXPECT_EQ(infoOf(table, "key"), "");
    table.release(claimOf("key", next), nullptr);
  }
  // The same owner takes it again, and another takes it when it has expired.
  table.tryAcquire(claimOf("key", "a"), kTtl);
  table.setInfo(claimOf("key", "a"), "old");
  table.tryAcquire(claimOf("key", "a"), kTtl);
  EXPECT_EQ(infoOf(table, "key"), "");
  table.setInfo(claimOf("key", "a"), "old");
  table.tryAcquire(claimOf("key", "b", kTtl), kTtl);
  EXPECT_EQ(infoOf(table, "key", kTtl), "");
}

TEST(LeaseTable, TellsThoseWhoWaitThatALeaseWasShortened) {
  LeaseTable table{100};
  Environment environment;
  LeaseWatches watches{environment.participant()};
  Environment own;
  LeaseWatches self{own.participant()};
  table.tryAcquire(claimOf("key", "a"), kTtl);
  watches.add(table, KeyView("key"));
  EXPECT_TRUE(table.renew(claimOf("key", "a"), 2 * kTtl, &self));
  EXPECT_FALSE(watches.hasReady());
  EXPECT_TRUE(table.renew(claimOf("key", "a"), 2 * kTtl - 1, &self));
  EXPECT_TRUE(watches.hasReady());
  EXPECT_EQ(environment.wakes(), 1);
  EXPECT_EQ(own.wakes(), 0);
}

}  // namespace stripelock::test
