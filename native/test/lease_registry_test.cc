#include "core/leases/lease_registry.h"

#include <optional>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr Nanoseconds kTtl = 1000;

std::uint64_t acquire(LeaseTable& table, const LeaseTable::Claim& claim, Nanoseconds ttl) {
  Environment environment;
  const LeaseWatches watches(environment.participant());
  return table.tryAcquire(claim, ttl, "", watches).token;
}

}  // namespace

TEST(LeaseRegistry, OpensNothingThatWasNotIssued) {
  LeaseRegistry& registry = LeaseRegistry::instance();
  const std::uint64_t number = registry.issue();
  EXPECT_EQ(registry.openTable(number + 1, false), nullptr);
  EXPECT_EQ(registry.openTable(0, false), nullptr);
  EXPECT_EQ(registry.openGate(number + 1, 10), nullptr);
}

TEST(LeaseRegistry, LetsThreadsThatOpenOneNumberMeet) {
  LeaseRegistry& registry = LeaseRegistry::instance();
  const std::uint64_t number = registry.issue();
  LeaseTable* const table = registry.openTable(number, false);
  EXPECT_EQ(registry.openTable(number, false), table);
  registry.closeTable(number);
  const LeaseTable::Claim claim{.key = KeyView("key"), .owner = "a"};
  EXPECT_NE(acquire(*table, claim, kTtl), 0u);
  // Without leases, the table is dropped now. Otherwise it could be dropped while the next test counts tables.
  table->end(claim, 0, nullptr);
  registry.closeTable(number);
}

TEST(LeaseRegistry, KeepsATableThatNobodyUsesWhileItsLeasesLast) {
  LeaseRegistry& registry = LeaseRegistry::instance();
  const std::size_t before = registry.tables();
  const std::uint64_t number = registry.issue();
  constexpr Nanoseconds kMinute = 60'000'000'000;
  const LeaseTable::Claim claim{.key = KeyView("key"), .owner = "a"};
  const std::uint64_t token = acquire(*registry.openTable(number, false), claim, kMinute);
  registry.closeTable(number);
  LeaseTable* const again = registry.openTable(number, false);
  EXPECT_EQ(again->inspect(KeyView("key"), LeaseTable::kElapsed)->token, token);
  again->keep(claim, token, "kept", 1, nullptr);
  registry.closeTable(number);
  EXPECT_TRUE(eventually([&] {
    const std::uint64_t other = registry.issue();
    registry.openTable(other, false);
    registry.closeTable(other);
    return registry.tables() == before;
  }));
  // A new table with the same number continues with higher tokens.
  EXPECT_GT(acquire(*registry.openTable(number, false), claim, 1), token);
  registry.closeTable(number);
}

TEST(LeaseRegistry, LeavesATableWithAClockOfItsOwnToThatClock) {
  LeaseRegistry& registry = LeaseRegistry::instance();
  const std::uint64_t number = registry.issue();
  // The table has a separate clock, on which this lease has not expired. On the steady clock it expired long ago.
  const LeaseTable::Claim claim{.key = KeyView("key"), .owner = "a", .at = 0};
  const std::uint64_t token = acquire(*registry.openTable(number, true), claim, kTtl);
  registry.closeTable(number);
  LeaseTable* const again = registry.openTable(number, true);
  const std::optional<LeaseTable::Info> info = again->inspect(claim.key, kTtl - 1);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->token, token);
  EXPECT_TRUE(again->end(claim, 0, nullptr));
  registry.closeTable(number);
}

}  // namespace stripelock::test
