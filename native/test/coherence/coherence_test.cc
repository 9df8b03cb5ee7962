// Counts the cache misses of locks with more threads than the test machine has cores. See docs/performance.md.
//
//   node scripts/test-native.mjs coherence      prints the table of that page, and checks that the page has its rows

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/table/membership.h"
#include "core/table/registry.h"
#include "core/table/sync_wait.h"
#include "test/coherence/simulator.h"

namespace stripelock::test {

namespace {

struct alignas(64) Line {
  std::array<std::byte, 64> bytes;
};

// One thread's use of the lock: what JavaScript accesses for `lock.acquireSync(key)` and `guard.release()`.
// test/engine/fast-path.test.ts checks that JavaScript accesses nothing else while the key is free.
class Thread {
 public:
  // The thread never leaves the registry. Otherwise a later simulation would reuse its slot, and would depend on how
  // long this thread was used to spin.
  Thread(std::int32_t id, void* memory, std::uint32_t stripes)
      : participant_(*Registry::instance().join(id, {})),
        membership_(*Registry::instance().open(participant_, memory, stripes)) {}
  ~Thread() { Registry::instance().close(membership_); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void acquire(std::uint32_t stripe) {
    Table& table = membership_.table();
    // lib/engine/fast-path.ts: FastPath.take
    std::uint32_t word = 0;
    if (table.word(stripe).compare_exchange_strong(word, participant_.slot())) return;
    // lib/lock/acquisition.ts: termsOf
    EXPECT_EQ(table.observed().load(), 0u);
    // native/node/acquisitions.cc: acquireSync
    const Request request{.stripes = &stripe,
                          .count = 1,
                          .taken = 0,
                          .mode = Mode::kExclusive,
                          .timeout = std::numeric_limits<double>::infinity()};
    EXPECT_EQ(SyncWait(membership_, request, {}).run().status, SyncOutcome::Status::kGranted);
  }

  void release(std::uint32_t stripe) {
    Table& table = membership_.table();
    // lib/engine/fast-path.ts: FastPath.release
    std::uint32_t word = participant_.slot();
    if (table.word(stripe).compare_exchange_strong(word, 0)) return;
    // lib/engine/native/table.ts: NativeTable.release
    EXPECT_EQ(table.observed().load(), 0u);
    // native/node/acquisitions.cc: release
    EXPECT_TRUE(membership_.release(stripe, Mode::kExclusive));
  }

 private:
  Participant& participant_;
  Membership& membership_;
};

using Choice = std::uint32_t (*)(unsigned thread, std::uint32_t stripes);
std::uint32_t any(unsigned, std::uint32_t stripes) { return randomBelow(stripes); }
std::uint32_t own(unsigned thread, std::uint32_t stripes) { return thread % stripes; }

struct Shape {
  unsigned threads;
  std::uint32_t stripes;
  Choice choose = any;
  // The time for which a stripe is held, and the time until the thread acquires again, on average. In nanoseconds.
  std::uint32_t held = 100;
  std::uint32_t pause = 100;
  // The number of acquisitions.
  unsigned steps = 65'536;
  std::uint64_t seed = 1;
};

// Each acquisition waits in the queue, except for the first.
Shape longSections(unsigned threads) {
  return {.threads = threads, .stripes = 1, .held = 100'000, .steps = 8'192};
}

// Each count per acquisition: misses, mutexes that were free, mutexes that were locked, and wake-ups.
using Rates = std::array<double, 4>;

Rates measure(const Shape& shape) {
  const auto memory = std::make_unique<Line[]>(byteLengthFor(shape.stripes) / sizeof(Line));
  std::vector<std::unique_ptr<Thread>> threads;
  for (unsigned i = 0; i < shape.threads; ++i) {
    threads.push_back(
        std::make_unique<Thread>(static_cast<std::int32_t>(i + 1), memory.get(), shape.stripes));
  }
  const AccessCounts counts = simulate(shape.threads, shape.steps, shape.seed, [&](unsigned thread) {
    const std::uint32_t stripe = shape.choose(thread, shape.stripes);
    threads[thread]->acquire(stripe);
    compute(shape.held);
    threads[thread]->release(stripe);
    compute(shape.pause);
  });
  const double counted = shape.steps / 2;
  const auto rate = [counted](std::uint64_t count) { return static_cast<double>(count) / counted; };
  return {rate(counts.misses), rate(counts.freeMutexes), rate(counts.heldMutexes), rate(counts.wakes)};
}

constexpr Rates kNothing{0, 0, 0, 0};

TEST(Coherence, DisjointKeysCostNothingWith64Threads) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    EXPECT_EQ(measure({.threads = 64, .stripes = 64, .choose = own, .seed = seed}), kNothing);
  }
}

// The misses of one compare-and-swap to take a word and one to release it, where each of 64 threads has its own word.
double missesOfWords(std::size_t distance) {
  const auto words = std::make_unique<Line[]>(64);
  constexpr unsigned kSteps = 8'192;
  const AccessCounts counts = simulate(64, kSteps, 1, [&](unsigned thread) {
    Word& word = *reinterpret_cast<Word*>(words[0].bytes.data() + thread * distance);
    std::uint32_t free = 0;
    EXPECT_TRUE(word.compare_exchange_strong(free, 1));
    compute(100);
    std::uint32_t taken = 1;
    EXPECT_TRUE(word.compare_exchange_strong(taken, 0));
    compute(100);
  });
  return static_cast<double>(counts.misses) / (kSteps / 2);
}

TEST(Coherence, FalseSharingOfNeighbouringWordsIsCounted) {
  EXPECT_EQ(missesOfWords(64), 0);
  EXPECT_GT(missesOfWords(32), 0.5);
  EXPECT_GT(missesOfWords(4), 1.5);
}

TEST(Coherence, AHotStripeCostsNoMoreWithMoreThreads) {
  for (const std::uint64_t seed : {1, 2}) {
    const auto misses = [&](unsigned threads) {
      return measure({.threads = threads, .stripes = 1, .steps = 16'384, .seed = seed})[0];
    };
    const double atMost = std::max({misses(2), misses(4), misses(8)});
    for (const unsigned threads : {16, 64}) EXPECT_LT(misses(threads), atMost);
  }
}

// A release that examined blocked threads would cost more with each of the first 16. Without slices, because threads
// that wait for long look for deadlocks from time to time, which is a cost per time and not per acquisition.
TEST(Coherence, AReleaseCostsNoMoreWithMoreWaiters) {
  seamShortestSlice.store(3'600'000'000'000);
  for (const std::uint32_t pause : {100, 100'000}) {
    const auto at = [&](unsigned threads) {
      Shape shape = longSections(threads);
      shape.pause = pause;
      return measure(shape);
    };
    const Rates few = at(4);
    const Rates many = at(64);
    for (std::size_t i = 0; i < few.size(); ++i) EXPECT_LT(many[i], 1.1 * few[i] + 0.01) << i;
  }
  seamShortestSlice.store(0);
}

// Two threads at each of 32 stripes, whose queues are neighbours in memory and whose counters are shared.
TEST(Coherence, PairsAtDifferentStripesHardlyDisturbEachOther) {
  const Rates pair = measure(longSections(2));
  Shape shape = longSections(64);
  shape.stripes = 32;
  shape.choose = own;
  const Rates pairs = measure(shape);
  for (std::size_t i = 0; i < pair.size(); ++i) EXPECT_LT(pairs[i], 1.15 * pair[i] + 0.01) << i;
}

TEST(Coherence, DependsOnTheSeedOnly) {
  const Shape shape{.threads = 8, .stripes = 2, .steps = 16'384};
  EXPECT_EQ(measure(shape), measure(shape));
  Shape other = shape;
  other.seed = 2;
  EXPECT_NE(measure(shape), measure(other));
}

std::string shown(double rate, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", rate == 0 ? 0 : digits, rate);
  return text.data();
}

// A tenth more or less is allowed: compilers order accesses that are not atomic differently, and a search for deadlocks
// visits threads in the order of their addresses.
TEST(Coherence, ThePageHasTheseFigures) {
  std::ifstream file("docs/performance.md");
  std::string page{std::istreambuf_iterator<char>(file), {}};
  std::erase(page, ' ');
  const auto check = [&page](const std::string& name, const Shape& shape) {
    const Rates rates = measure(shape);
    std::string start = "| " + name + " | " + std::to_string(shape.threads) + " | ";
    std::string line = start;
    for (std::size_t i = 0; i < rates.size(); ++i) line += shown(rates[i], i == 0 ? 1 : 2) + " | ";
    std::printf("%s\n", line.c_str());
    std::erase(start, ' ');
    const std::size_t found = page.find(start);
    ASSERT_NE(found, std::string::npos) << "no row " << line;
    std::istringstream cells(page.substr(found + start.size()));
    for (std::size_t i = 0; i < rates.size(); ++i) {
      double inPage = -1;
      char bar = 0;
      cells >> inPage >> bar;
      const double rounding = rates[i] == 0 ? 0 : i == 0 ? 0.06 : 0.006;
      EXPECT_NEAR(inPage, rates[i], 0.1 * rates[i] + rounding) << line;
    }
  };
  for (const unsigned threads : {2u, 8u, 64u}) check("a separate stripe each", {threads, 64, own});
  for (const std::uint32_t stripes : {1024u, 64u, 2u}) {
    for (const unsigned threads : {2u, 8u, 64u}) {
      check("any of " + std::to_string(stripes) + " stripes", {threads, stripes});
    }
  }
  for (const unsigned threads : {2u, 8u, 64u}) check("1 stripe", {threads, 1});
  for (const unsigned threads : {2u, 8u, 64u}) check("1 stripe, held for 100 µs", longSections(threads));
}

}  // namespace

}  // namespace stripelock::test
