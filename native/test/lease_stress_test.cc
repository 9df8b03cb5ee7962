// Threads acquire, renew, abandon and release leases, wait for them, start and end. Each run prints its seed:
//
//   STRIPELOCK_SEED=<seed> STRIPELOCK_SECONDS=<seconds> core_test --gtest_filter='LeaseStress.*'

#include <array>
#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/leases/fencing_gate.h"
#include "core/leases/lease_table.h"
#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr std::uint32_t kKeys = 8;
constexpr unsigned kThreads = 4;
constexpr Nanoseconds kShort = 300'000;
constexpr Nanoseconds kLong = 60'000'000'000;

struct World {
  LeaseTable table{1000};
  FencingGate gate{kKeys, 0};
  // For each key, the token of a long lease. Its holder is certainly the only one.
  std::array<std::atomic<std::uint64_t>, kKeys> certain{};
  std::array<std::atomic<std::uint64_t>, kKeys> lastToken{};
  std::atomic<std::uint64_t> grants{0};
  std::atomic<std::uint64_t> waited{0};
  std::atomic<bool> over{false};
};

std::string keyName(std::uint32_t key) { return "key " + std::to_string(key); }

// Checks that the holder of a long lease is the only one. A short lease may have expired before this call.
void checkGrant(World& world, std::uint32_t key, std::uint64_t token, bool certain) {
  world.grants.fetch_add(1);
  if (!certain) return;
  ASSERT_EQ(world.certain[key].exchange(token), 0u) << "two hold it at once";
  ASSERT_GT(token, world.lastToken[key].exchange(token)) << "tokens of a key rise";
  ASSERT_EQ(world.gate.admit(KeyView(keyName(key)), token), 0u);
  std::this_thread::yield();
  ASSERT_EQ(world.gate.admit(KeyView(keyName(key)), token), 0u) << "somebody came after it";
  ASSERT_EQ(world.certain[key].exchange(0), token);
}

// A thread's life: an environment, and some leases.
void live(World& world, std::mt19937_64& random) {
  Environment environment;
  LeaseWatches watches(environment.participant());
  const std::uint64_t actions = 50 + random() % 500;
  for (std::uint64_t i = 0; i < actions && !world.over.load(); ++i) {
    const auto key = static_cast<std::uint32_t>(random() % kKeys);
    const std::string name = keyName(key);
    const std::string owner = "owner " + std::to_string(random());
    const LeaseTable::Claim claim{.key = KeyView(name), .owner = owner};
    // The key decides whether a lease may expire by itself. "Certain" leases never do.
    const bool certain = key % 2 == 0;
    const Nanoseconds ttl = certain ? kLong : kShort;
    std::uint64_t token = 0;
    if (random() % 3 == 0) {
      token = world.table.tryAcquire(claim, ttl, "", watches).token;
    } else {
      const std::uint32_t id = watches.add(world.table, KeyView(name));
      const Nanoseconds end = now() + 20'000'000;
      while (token == 0 && now() < end && !world.over.load()) {
        const LeaseTable::Grant turn = world.table.tryAcquire(claim, ttl, "info", watches);
        token = turn.token;
        if (token != 0) break;
        world.waited.fetch_add(1);
        environment.awaitWake(std::min(milliseconds(turn.retryAfter), 1.0));
        std::array<std::uint32_t, 4> ids{};
        takeGrants(environment);
        watches.take(ids.data(), ids.size());
      }
      watches.remove(id);
    }
    if (token == 0) continue;
    checkGrant(world, key, token, certain);
    if (testing::Test::HasFatalFailure()) return;
    const bool renewed = world.table.renew(claim, ttl);
    if (certain) {
      ASSERT_TRUE(renewed);
    }
    // Short leases may also just expire.
    if (certain || random() % 2 == 0) {
      LeaseTable::Claim held = claim;
      const std::string keptOwner = "kept " + owner;
      if (random() % 3 == 0) {
        const bool kept = world.table.keep(claim, token, keptOwner, ttl, &watches);
        held.owner = keptOwner;
        if (certain) {
          ASSERT_TRUE(kept);
          ASSERT_EQ(world.table.tryAcquire(claim, ttl, "", watches).token, 0u);
        }
      }
      const bool released = world.table.end(held, random() % 2 == 0 ? token : 0, &watches);
      if (certain) {
        ASSERT_TRUE(released);
      }
    }
  }
  // The thread ends with watches that other threads may be about to notify.
  for (std::uint32_t key = 0; key < kKeys; ++key) watches.add(world.table, KeyView(keyName(key)));
}

}  // namespace

TEST(LeaseStress, NeverHasTwoHoldersNorAStaleToken) {
  std::mt19937_64 seeds = seeded("LeaseStress");
  const double seconds = static_cast<double>(numberFrom("STRIPELOCK_SECONDS", 2));
  World world;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&world, random = std::mt19937_64(seeds())]() mutable {
      while (!world.over.load() && !testing::Test::HasFatalFailure()) live(world, random);
    });
  }
  const Nanoseconds end = now() + static_cast<Nanoseconds>(seconds * 1e9);
  while (now() < end && !testing::Test::HasFatalFailure())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  world.over.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(world.grants.load(), 100u);
  EXPECT_GT(world.waited.load(), 10u);
  EXPECT_LE(world.table.size(), kKeys);
}

}  // namespace stripelock::test
