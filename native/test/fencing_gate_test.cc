#include "core/leases/fencing_gate.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "core/leases/lease_registry.h"

namespace stripelock::test {

namespace {

std::uint64_t admit(FencingGate& gate, const std::string& key, std::uint64_t token) {
  return gate.admit(KeyView(key), token);
}

}  // namespace

TEST(FencingGate, ForgetsTheLowestTokensAndRefusesWhatMayBeStale) {
  FencingGate gate(2, 0);
  admit(gate, "a", 10);
  admit(gate, "b", 20);
  admit(gate, "c", 30);
  EXPECT_EQ(gate.size(), 2u);
  EXPECT_EQ(admit(gate, "a", 9), 10u);
  EXPECT_EQ(admit(gate, "never seen", 9), 10u);
  EXPECT_EQ(admit(gate, "b", 20), 0u);
  EXPECT_EQ(admit(gate, "a", 10), 0u) << "its own token equals the floor and is not stale";
}

TEST(FencingGate, AdmitsNoStaleTokenHoweverLittleItRemembers) {
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const std::uint32_t capacity : {1u, 3u, 50u, 300u, 1000u}) {
    FencingGate gate(capacity, 0);
    std::map<std::string, std::uint64_t> highest;
    std::uint64_t refusedThoughFresh = 0;
    for (int i = 0; i < 20'000; ++i) {
      const std::string key = std::to_string(random() % 400);
      const std::uint64_t token = 1 + random() % 10'000;
      const std::uint64_t newest = admit(gate, key, token);
      if (newest == 0) {
        ASSERT_GE(token, highest[key]);
        highest[key] = token;
      } else {
        ASSERT_GT(newest, token);
        if (token >= highest[key]) ++refusedThoughFresh;
      }
      ASSERT_LE(gate.size(), capacity);
    }
    if (capacity == 1000) {
      EXPECT_EQ(gate.size(), highest.size());
      EXPECT_EQ(refusedThoughFresh, 0u);
    }
  }
}

TEST(FencingGate, KeepsItsHighestTokenWhileNobodyHasItOpen) {
  LeaseRegistry& registry = LeaseRegistry::instance();
  const std::uint64_t number = registry.issueGate();
  EXPECT_EQ(admit(*registry.openGate(number, 10), "a", 7), 0u);
  registry.closeGate(number);
  FencingGate* const again = registry.openGate(number, 10);
  EXPECT_EQ(admit(*again, "a", 6), 7u);
  EXPECT_EQ(admit(*again, "a", 7), 0u);
  registry.closeGate(number);
}

TEST(FencingGate, AdmitsNothingStaleOnceTheRegistryHasForgottenItsFloor) {
  LeaseRegistry& registry = LeaseRegistry::instance();
  const std::uint64_t first = registry.issueGate();
  const std::uint64_t unborn = registry.issueGate();
  EXPECT_EQ(admit(*registry.openGate(first, 10), "a", 1000), 0u);
  registry.closeGate(first);
  for (std::uint64_t i = 0; i < 2 * LeaseRegistry::kRemembered; ++i) {
    const std::uint64_t number = registry.issueGate();
    EXPECT_EQ(admit(*registry.openGate(number, 10), "a", 1001 + i), 0u);
    registry.closeGate(number);
  }
  EXPECT_LE(registry.gates(), LeaseRegistry::kRemembered + 1);
  EXPECT_GE(admit(*registry.openGate(first, 10), "a", 999), 1000u);
  registry.closeGate(first);
  EXPECT_EQ(admit(*registry.openGate(unborn, 10), "a", 1), 0u) << "it never admitted anything";
  registry.closeGate(unborn);
}

TEST(FencingGate, IsNotForgottenForOneThatIsOpenedOverAndOver) {
  LeaseRegistry& registry = LeaseRegistry::instance();
  // Higher than the tokens of all other tests, so those are forgotten first. These gates then fill the registry.
  constexpr std::uint64_t kHigh = 1'000'000;
  std::uint64_t number = 0;
  for (std::uint64_t i = 0; i <= LeaseRegistry::kRemembered; ++i) {
    number = registry.issueGate();
    EXPECT_EQ(admit(*registry.openGate(number, 10), "a", kHigh + i), 0u);
    registry.closeGate(number);
  }
  const std::uint64_t other = registry.issueGate();
  EXPECT_EQ(admit(*registry.openGate(other, 10), "a", 2 * kHigh), 0u);
  registry.closeGate(other);
  for (std::uint64_t i = 0; i < 2 * LeaseRegistry::kRemembered; ++i) {
    for (int users = 0; users < 2; ++users) registry.openGate(other, 10);
    for (int users = 0; users < 2; ++users) registry.closeGate(other);
  }
  EXPECT_EQ(admit(*registry.openGate(number, 10), "a", kHigh + LeaseRegistry::kRemembered), 0u);
  registry.closeGate(number);
}

}  // namespace stripelock::test
