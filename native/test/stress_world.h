// What the threads of a stress run share: locks, the data that these guard, and what must be true of that data.
//
// Data is written without atomics, only under exclusive holds, and read under shared ones: a broken lock shows as a
// lost update, a changed value, or a data race that ThreadSanitizer reports.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "test/support.h"

namespace stripelock::test {

using Random = std::mt19937_64;

// Uniform in 0 … below - 1.
inline std::uint32_t below(Random& random, std::uint32_t limit) {
  return static_cast<std::uint32_t>(random() % limit);
}
inline bool oneIn(Random& random, std::uint32_t rarity) { return below(random, rarity) == 0; }

struct GuardedData {
  std::uint64_t updates = 0;
  std::uint64_t copy = 0;
  std::int32_t writer = 0;
  // A writer's thread ended while it held the stripe, and no later writer has dealt with it.
  bool dirty = false;
};

// One lock and its data.
struct World {
  explicit World(std::uint32_t stripes) : memory(stripes), data(stripes) {}

  SharedMemory memory;
  std::vector<GuardedData> data;
  // What the header must say at the end.
  std::atomic<std::int64_t> updates{0};
  std::atomic<std::int64_t> timeouts{0};
  std::atomic<std::int64_t> aborts{0};
  std::atomic<std::int64_t> deadlocks{0};
  std::atomic<std::int64_t> abandoned{0};
};

// What a thread holds, checked when it begins and when it ends.
class Held {
 public:
  Held(World& world, Stripes stripes, Mode mode, bool toldAbandoned, std::int32_t threadId);

  const Stripes& stripes() const { return stripes_; }
  Mode mode() const { return mode_; }
  void beforeRelease();
  void beforeDeath();

 private:
  void enter(GuardedData& data);
  void check(const GuardedData& data, std::uint64_t expected) const;

  World* world_;
  Stripes stripes_;
  Mode mode_;
  std::int32_t threadId_;
  // The value seen for each stripe, while held shared.
  std::vector<std::uint64_t> seen_;
};

// Widens the race windows of the core for as long as it lives, in all threads.
class WidenedWindows {
 public:
  explicit WidenedWindows(std::uint64_t seed);
  ~WidenedWindows();
};

}  // namespace stripelock::test
