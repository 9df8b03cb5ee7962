// Everything at once, at random, with the race windows widened. Each run prints its seed:
//
//   STRIPELOCK_SEED=<seed> STRIPELOCK_SECONDS=<seconds> core_test --gtest_filter='Stress.*'
//
// repeats the threads' decisions, but not the machine's interleaving. With STRIPELOCK_SLICES=none a lost wake-up is a
// hang, except in the unruly tests.

#include <algorithm>
#include <cstdio>
#include <optional>

#include <gtest/gtest.h>

#include "test/stress_life.h"

namespace stripelock::test {

namespace {

// No operation may take longer: sync waits that cannot end are refused, and async ones have deadlines. Far longer than
// a loaded machine under ThreadSanitizer has ever needed.
constexpr double kWatchdog = 60'000;

struct Plan {
  std::uint64_t seed;
  double seconds;
  Manners manners;
  std::uint32_t threads;
  // The number of stripes of each lock. Few stripes mean much contention.
  std::vector<std::uint32_t> stripes;
};

class StressRun {
 public:
  explicit StressRun(Plan plan) : plan_(std::move(plan)) {
    for (const std::uint32_t stripes : plan_.stripes) worlds_.push_back(std::make_unique<World>(stripes));
  }

  void run() {
    std::printf("[   seed   ] STRIPELOCK_SEED=%llu\n", static_cast<unsigned long long>(plan_.seed));
    const WidenedWindows windows(plan_.seed);
    // Keeps the tables while the others come and go.
    Environment keeper;
    std::vector<std::unique_ptr<Client>> clients;
    for (const auto& world : worlds_) clients.push_back(std::make_unique<Client>(keeper, world->memory));
    std::vector<Activity> activities(plan_.threads);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < plan_.threads; ++i) {
      threads.emplace_back([this, i, &activities] { live(i, activities[i]); });
    }
    watch(activities, clients);
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < worlds_.size(); ++i) checkQuiet(*worlds_[i], *clients[i]);
  }

 private:
  void live(std::uint32_t index, Activity& activity) {
    Random random(plan_.seed * 1000 + index);
    const Deadline end = Deadline::after(plan_.seconds * 1000);
    while (!end.passedAt(now())) {
      Life life(worlds_, plan_.manners, random, activity);
      bool dying = false;
      while (!dying && !end.passedAt(now()) && !::testing::Test::HasFailure()) dying = !life.step();
      if (dying) {
        life.die();
      } else {
        life.retire();
      }
      if (::testing::Test::HasFailure()) break;
    }
    activity.begin(nullptr);
  }

  // Runs until all have ended.
  void watch(std::vector<Activity>& activities, std::vector<std::unique_ptr<Client>>& clients) {
    const auto active = [&] {
      return std::any_of(activities.begin(), activities.end(),
                         [](const Activity& one) { return one.what.load() != nullptr; });
    };
    while (active()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (std::size_t i = 0; i < activities.size(); ++i) {
        const char* const what = activities[i].what.load();
        if (!what || milliseconds(now() - activities[i].since.load()) < kWatchdog) continue;
        std::fprintf(stderr, "thread %zu is stuck in: %s\n", i, what);
        for (const auto& client : clients) describe(client->table());
        stuck("a thread of the stress run");
      }
    }
  }

  // Nothing is left behind, and the header has counted right.
  static void checkQuiet(World& world, Client& client) {
    std::int64_t updates = 0;
    for (std::uint32_t stripe = 0; stripe < world.memory.stripes(); ++stripe) {
      const GuardedData& data = world.data[stripe];
      const std::uint32_t flag = data.dirty ? kAbandoned : 0;
      EXPECT_EQ(world.memory.word(stripe).load(), flag) << "stripe " << stripe;
      EXPECT_EQ(client.table().queueOf(stripe).head, nullptr);
      EXPECT_EQ(client.table().queueOf(stripe).designated.load(), nullptr);
      EXPECT_EQ(data.copy, data.updates);
      updates += static_cast<std::int64_t>(data.updates);
    }
    EXPECT_EQ(updates, world.updates.load());
    EXPECT_GT(updates, 0);
    EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
    EXPECT_EQ(world.memory.cell(kAbandonedCell), world.abandoned.load());
    std::printf(
        "[  result  ] %u stripes: %lld updates, %lld waits, %lld timeouts, %lld deadlocks, %lld abandoned\n",
        world.memory.stripes(), static_cast<long long>(updates),
        static_cast<long long>(world.memory.cell(kContendedCell)),
        static_cast<long long>(world.timeouts.load()), static_cast<long long>(world.deadlocks.load()),
        static_cast<long long>(world.abandoned.load()));
  }

  Plan plan_;
  std::vector<std::unique_ptr<World>> worlds_;
};

void stress(Manners manners, std::uint32_t threads, std::vector<std::uint32_t> stripes) {
  StressRun({.seed = numberFrom("STRIPELOCK_SEED", std::random_device{}()),
             .seconds = static_cast<double>(numberFrom("STRIPELOCK_SECONDS", 2)),
             .manners = manners,
             .threads = threads,
             .stripes = std::move(stripes)})
      .run();
}

}  // namespace

TEST(Stress, OrderlyThreadsOnOneStripe) { stress(Manners::kOrderly, 3, {1}); }

TEST(Stress, OrderlyThreadsWhoseGrantsAreRevokedAtOnce) {
  const Patience none(0);
  stress(Manners::kOrderly, 4, {1});
  stress(Manners::kOrderly, 6, {3, 8});
}

TEST(Stress, OrderlyThreadsOnTwoLocks) { stress(Manners::kOrderly, 4, {3, 300}); }

TEST(Stress, OrderlyThreadsOnSetsOfStripes) { stress(Manners::kOrderly, 6, {6, 8}); }

TEST(Stress, NestingThreadsOnTwoLocks) { stress(Manners::kNested, 4, {4, 7}); }

// Deadlocks are found at the end of a slice.

TEST(Stress, UnrulyThreadsOnOneStripe) {
  const UsualSlices slices;
  stress(Manners::kUnruly, 2, {1});
}

TEST(Stress, UnrulyThreadsOnTwoLocks) {
  const UsualSlices slices;
  stress(Manners::kUnruly, 4, {2, 7});
}

TEST(Stress, UnrulyThreadsWhoseGrantsAreRevokedAtOnce) {
  const UsualSlices slices;
  const Patience none(0);
  stress(Manners::kUnruly, 4, {2, 7});
}

TEST(Stress, ManyUnrulyThreadsOnManyStripes) {
  const UsualSlices slices;
  stress(Manners::kUnruly, 8, {16, 300});
}

}  // namespace stripelock::test
