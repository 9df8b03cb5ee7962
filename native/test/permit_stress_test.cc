// Threads take and release permits in every way, and end at any time. There must never be more holders than the
// limit, no permit may be lost, and no waiter may be left behind.

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr std::uint32_t kStripes = 3;
constexpr std::uint32_t kLimit = 3;
constexpr std::size_t kThreads = 6;

// The number of holders of each stripe, as the threads themselves count them.
struct Inside {
  SharedMemory memory{kStripes};
  std::array<std::atomic<std::uint32_t>, kStripes> now{};
  std::array<std::atomic<std::uint32_t>, kStripes> most{};
  std::atomic<std::uint64_t> entries{0};
  std::atomic<std::uint64_t> deaths{0};
  std::atomic<bool> over{false};
  std::atomic<std::size_t> running{kThreads};

  void enter(const Stripes& stripes) {
    for (const std::uint32_t stripe : stripes) {
      const std::uint32_t count = now[stripe].fetch_add(1) + 1;
      EXPECT_LE(count, kLimit) << "permits of stripe " << stripe;
      std::uint32_t seen = most[stripe].load();
      while (seen < count && !most[stripe].compare_exchange_weak(seen, count)) {
      }
    }
    entries.fetch_add(1);
  }
  void leave(const Stripes& stripes) {
    for (const std::uint32_t stripe : stripes) now[stripe].fetch_sub(1);
  }
};

// One thread from its start to its death. It takes stripes in ascending order, so it waits only for stripes after those
// that it holds.
class PermitLife {
 public:
  PermitLife(Inside& inside, Random& random)
      : inside_(inside), random_(random), peer_(inside.memory, false, kLimit) {}

  void live() {
    for (int left = 200; left > 0 && !ends_ && !inside_.over.load(); --left) {
      const Stripes stripes = anyStripes();
      switch (below(random_, 4)) {
        case 0:
          acquireSync(stripes, 0);
          break;
        case 1:
          acquireSync(stripes, oneIn(random_, 3) ? 1 : kForever);
          break;
        default:
          acquire(stripes);
      }
      if (oneIn(random_, 4)) std::this_thread::yield();
      // The thread ends while it holds permits.
      if (oneIn(random_, 100)) break;
      releaseAll();
    }
    if (oneIn(random_, 2)) releaseAll();
    if (!held_.empty()) inside_.deaths.fetch_add(1);
    for (const Stripes& stripes : held_) inside_.leave(stripes);
    // Its pending acquisitions may already have been granted.
    peer_.environment.end();
  }

 private:
  Stripes anyStripes() {
    Stripes stripes;
    for (std::uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      if (oneIn(random_, 2)) stripes.push_back(stripe);
    }
    if (stripes.empty()) stripes.push_back(below(random_, kStripes));
    return stripes;
  }

  Ask ask(double timeout) { return {.mode = Mode::kShared, .timeout = timeout, .fast = !oneIn(random_, 4)}; }

  void hold(const Stripes& stripes) {
    inside_.enter(stripes);
    held_.push_back(stripes);
  }

  void acquireSync(const Stripes& stripes, double timeout) {
    const Status status = peer_.client.sync(stripes, ask(timeout));
    EXPECT_NE(status, Status::kDeadlock) << "it holds nothing while it waits";
    EXPECT_TRUE(status == Status::kGranted || timeout != kForever);
    if (status == Status::kGranted) hold(stripes);
  }

  // Starts several acquisitions. They are granted in any order, and some are cancelled.
  void acquire(const Stripes& stripes) {
    struct Pending {
      std::uint32_t id;
      Stripes stripes;
    };
    std::vector<Pending> pending;
    for (std::uint32_t left = 1 + below(random_, 3); left > 0; --left) {
      const AsyncWaits::Started started = peer_.client.acquire(stripes, ask(kForever));
      if (started.status == AsyncStart::kGranted) hold(stripes);
      if (started.status == AsyncStart::kPending) pending.push_back({started.id, stripes});
      // Releases all permits. Otherwise this thread could wait for a thread that waits for its permits.
      if (!held_.empty()) releaseAll();
    }
    if (oneIn(random_, 3) && !pending.empty()) {
      EXPECT_TRUE(peer_.async().cancel(pending.back().id));
      pending.pop_back();
    }
    // Sometimes the thread blocks or ends before it collects its grants.
    if (oneIn(random_, 8)) acquireSync({below(random_, kStripes)}, 1);
    releaseAll();
    if (oneIn(random_, 50)) {
      ends_ = true;
      return;
    }
    while (!pending.empty()) {
      // If a release by this thread grants this thread's own acquisition, the release does not wake the event loop.
      const bool ready = peer_.async().hasReady();
      for (const auto& grant : ready ? takeGrants(peer_.environment) : awaitGrants(peer_.environment)) {
        for (std::size_t i = 0; i < pending.size(); ++i) {
          if (pending[i].id != grant.id) continue;
          hold(pending[i].stripes);
          pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
          break;
        }
      }
      releaseAll();
    }
  }

  void releaseAll() {
    for (const Stripes& stripes : held_) {
      inside_.leave(stripes);
      EXPECT_TRUE(peer_.client.release(stripes, Mode::kShared));
    }
    held_.clear();
  }

  Inside& inside_;
  Random& random_;
  Peer peer_;
  std::vector<Stripes> held_;
  // The thread ends while acquisitions are pending.
  bool ends_ = false;
};

void run(Inside& inside, Peer& last, const char* name) {
  Random random = seeded(name);
  const WidenedWindows windows(random());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&inside, seed = random()] {
      Random own(seed);
      while (!inside.over.load()) PermitLife(inside, own).live();
      inside.running.fetch_sub(1);
    });
  }
  std::this_thread::sleep_for(std::chrono::seconds(numberFrom("STRIPELOCK_SECONDS", 2)));
  inside.over.store(true);
  if (!eventually([&] { return inside.running.load() == 0; })) {
    describe(last.client.table());
    stuck("a thread with permits");
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST(PermitStress, NeverAdmitsMoreThanTheLimitAndLosesNoPermit) {
  Inside inside;
  // Keeps the table open, with its abandoned stripes.
  Peer last(inside.memory, false, kLimit);
  run(inside, last, "permits");
  EXPECT_GT(inside.entries.load(), 0u);
  EXPECT_GT(inside.deaths.load(), 0u);
  for (std::uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    EXPECT_EQ(inside.most[stripe].load(), kLimit) << "all permits were in use at some time";
    EXPECT_TRUE(isFree(inside.memory.word(stripe).load()));
    EXPECT_EQ(waitersOf(last.client, stripe), 0u);
    const Ask ask{.mode = Mode::kShared, .timeout = 0};
    for (std::uint32_t i = 0; i < kLimit; ++i) EXPECT_EQ(last.client.sync({stripe}, ask), Status::kGranted);
    EXPECT_EQ(last.client.sync({stripe}, ask), Status::kTimedOut);
    for (std::uint32_t i = 0; i < kLimit; ++i) EXPECT_TRUE(last.client.release({stripe}, Mode::kShared));
  }
  EXPECT_EQ(inside.memory.cell(kWaitingCell), 0);
}

}  // namespace stripelock::test
