// Threads request, release, cancel and steal web locks, and start and end, while another thread queries all locks.
// Each run prints its seed:
//
//   STRIPELOCK_SEED=<seed> STRIPELOCK_SECONDS=<seconds> core_test --gtest_filter='WebLockStress.*'

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "test/web_lock_support.h"

namespace stripelock::test {

namespace {

constexpr std::uint32_t kNames = 6;
constexpr unsigned kThreads = 4;
constexpr std::size_t kMostRequests = 12;
// More than the number of all readers.
constexpr int kWhole = 1000;

std::u16string nameOf(std::uint32_t number) { return std::u16string(1 + number, u'n'); }
// Locks with these names are never stolen, so a holder can rely on them.
constexpr bool isCertain(std::uint32_t number) { return number % 2 == 0; }

struct World {
  const std::uint64_t manager = newManager();
  // For each name, the number of holders as their threads count them. An exclusive holder counts kWhole.
  std::array<std::atomic<int>, kNames> holders{};
  std::atomic<std::uint64_t> grants{0};
  std::atomic<std::uint64_t> thefts{0};
  std::atomic<std::uint64_t> late{0};
  std::atomic<std::uint64_t> deaths{0};
  std::atomic<bool> over{false};
};

int weightOf(Mode mode) { return mode == Mode::kExclusive ? kWhole : 1; }

// A thread from its start to its end, which makes the same calls as lib/.
class Life {
 public:
  Life(World& world, std::mt19937_64& random) : world_(world), random_(random), peer_(world.manager) {}

  void live() {
    const std::uint64_t actions = 20 + random_() % 400;
    for (std::uint64_t i = 0; i < actions && !world_.over.load(); ++i) {
      act();
      if (random_() % 2 == 0) takeNews();
      if (testing::Test::HasFatalFailure()) return;
    }
    // The thread dies while it holds locks. From here on, they do not count as held: other threads can get them as soon
    // as the thread has ended.
    for (const Own& own : requests_) {
      if (own.held) leave(own);
    }
    world_.deaths.fetch_add(1);
    peer_.end();
  }

 private:
  struct Own {
    std::uint32_t ticket;
    std::uint32_t name;
    Mode mode;
    bool held;
  };

  void enter(const Own& own) {
    world_.grants.fetch_add(1);
    if (!isCertain(own.name)) return;
    const int before = world_.holders[own.name].fetch_add(weightOf(own.mode));
    if (own.mode == Mode::kExclusive) {
      ASSERT_EQ(before, 0) << "an exclusive holder is not alone";
    } else {
      ASSERT_LT(before, kWhole) << "a reader is with an exclusive holder";
    }
  }
  void leave(const Own& own) {
    if (isCertain(own.name)) world_.holders[own.name].fetch_sub(weightOf(own.mode));
  }

  void act() {
    if (requests_.size() < kMostRequests && random_() % 2 == 0) {
      start();
    } else if (!requests_.empty()) {
      finish(random_() % requests_.size());
    }
  }

  void start() {
    const auto name = static_cast<std::uint32_t>(random_() % kNames);
    const Mode mode = sharedIf(random_() % 2 == 0);
    WebLockHow how = random_() % 5 == 0 ? WebLockHow::kIfAvailable : WebLockHow::kWait;
    if (!isCertain(name) && mode == Mode::kExclusive && random_() % 4 == 0) how = WebLockHow::kSteal;
    const WebLockClient::Started started = peer_.request(nameOf(name), mode, how);
    if (started.answer == WebLockAnswer::kUnavailable) return;
    ASSERT_TRUE(how == WebLockHow::kWait || started.answer == WebLockAnswer::kHeld);
    const Own own{started.ticket, name, mode, started.answer == WebLockAnswer::kHeld};
    requests_.push_back(own);
    if (own.held) enter(own);
  }

  void finish(std::size_t index) {
    const Own own = requests_[index];
    if (own.held) {
      leave(own);
      requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(index));
      // The lock may have been stolen, and the thread may not have noticed.
      ASSERT_TRUE(peer_.release(own.ticket) || !isCertain(own.name));
      return;
    }
    if (!peer_.cancel(own.ticket)) {
      // The request was granted before the cancel. The thread may not have collected the grant, but must release it.
      world_.late.fetch_add(1);
      ASSERT_TRUE(peer_.release(own.ticket) || !isCertain(own.name));
    }
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void takeNews() {
    if (random_() % 3 == 0) {
      peer_.environment().awaitWake(0.2);
      takeGrants(peer_.environment());
    }
    for (const WebLockClient::News& news : peer_.take()) {
      const auto found = std::find_if(requests_.begin(), requests_.end(),
                                      [&](const Own& own) { return own.ticket == news.ticket; });
      ASSERT_NE(found, requests_.end()) << "news of a request that has ended";
      if (news.granted) {
        ASSERT_FALSE(found->held) << "granted twice";
        found->held = true;
        enter(*found);
      }
      if (news.stolen) {
        ASSERT_TRUE(found->held);
        ASSERT_FALSE(isCertain(found->name));
        world_.thefts.fetch_add(1);
        requests_.erase(found);
      }
    }
  }

  World& world_;
  std::mt19937_64& random_;
  WebLockPeer peer_;
  std::vector<Own> requests_;
};

}  // namespace

TEST(WebLockStress, KeepsItsInvariantsWhateverThreadsDo) {
  std::mt19937_64 seeds = seeded("WebLockStress");
  const double seconds = static_cast<double>(numberFrom("STRIPELOCK_SECONDS", 2));
  World world;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&world, random = std::mt19937_64(seeds())]() mutable {
      while (!world.over.load() && !testing::Test::HasFatalFailure()) Life(world, random).live();
    });
  }
  const Nanoseconds end = now() + static_cast<Nanoseconds>(seconds * 1e9);
  while (now() < end && !testing::Test::HasFatalFailure()) {
    for (const WebLocks::NameInfo& info : WebLocks::instance().query(world.manager))
      EXPECT_TRUE(isSound(info));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  world.over.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(WebLocks::instance().query(world.manager).empty());
  for (const std::atomic<int>& holders : world.holders) EXPECT_EQ(holders.load(), 0);
  EXPECT_GT(world.grants.load(), 100u);
  EXPECT_GT(world.thefts.load(), 10u);
  EXPECT_GT(world.late.load(), 0u);
  EXPECT_GT(world.deaths.load(), 10u);
}

// A lost wake would leave a thread waiting forever.
TEST(WebLockStress, LosesNoWakeUp) {
  const std::uint64_t manager = newManager();
  std::atomic<int> total{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      WebLockPeer peer(manager);
      for (int round = 0; round < 2'000; ++round) {
        const WebLockClient::Started started = peer.request(u"a");
        if (started.answer == WebLockAnswer::kPending) {
          const std::vector<WebLockClient::News> news = peer.awaitNews();
          ASSERT_EQ(news.size(), 1u);
          ASSERT_EQ(news[0].ticket, started.ticket);
        }
        total.fetch_add(1);
        peer.release(started.ticket);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total.load(), 2'000 * static_cast<int>(kThreads));
}

}  // namespace stripelock::test
