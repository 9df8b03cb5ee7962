#include "test/stress_world.h"

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

namespace stripelock::test {

Held::Held(World& world, Stripes stripes, Mode mode, bool toldAbandoned, std::int32_t threadId)
    : world_(&world), stripes_(std::move(stripes)), mode_(mode), threadId_(threadId) {
  bool dirty = false;
  for (const std::uint32_t stripe : stripes_) {
    dirty |= world_->data[stripe].dirty;
    enter(world_->data[stripe]);
  }
  EXPECT_EQ(toldAbandoned, dirty) << "thread " << threadId_;
}

void Held::enter(GuardedData& data) {
  if (mode_ == Mode::kShared) {
    seen_.push_back(data.updates);
    check(data, data.updates);
    return;
  }
  data.dirty = false;
  EXPECT_EQ(data.writer, 0) << "thread " << threadId_ << " holds what another one holds";
  check(data, data.updates);
  data.writer = threadId_;
  ++data.updates;
}

void Held::check(const GuardedData& data, std::uint64_t expected) const {
  EXPECT_EQ(data.updates, expected) << "written while thread " << threadId_ << " held it";
  EXPECT_EQ(data.copy, expected) << "half-written while thread " << threadId_ << " held it";
}

void Held::beforeRelease() {
  for (std::size_t i = 0; i < stripes_.size(); ++i) {
    GuardedData& data = world_->data[stripes_[i]];
    if (mode_ == Mode::kShared) {
      check(data, seen_[i]);
      continue;
    }
    EXPECT_EQ(data.writer, threadId_) << "taken from thread " << threadId_;
    data.copy = data.updates;
    data.writer = 0;
    world_->updates.fetch_add(1);
  }
}

void Held::beforeDeath() {
  beforeRelease();
  for (const std::uint32_t stripe : stripes_) {
    if (mode_ == Mode::kExclusive) world_->data[stripe].dirty = true;
  }
}

namespace {

std::atomic<std::uint64_t> windowSeed{0};

void widen(const char*) {
  static std::atomic<std::uint64_t> threads{0};
  thread_local Random random(windowSeed.load() + threads.fetch_add(1));
  const std::uint32_t draw = below(random, 64);
  if (draw < 8) std::this_thread::yield();
  if (draw == 8) std::this_thread::sleep_for(std::chrono::microseconds(below(random, 200)));
}

}  // namespace

WidenedWindows::WidenedWindows(std::uint64_t seed) {
  windowSeed.store(seed);
  onSeam(widen);
}

WidenedWindows::~WidenedWindows() { onSeam(nullptr); }

}  // namespace stripelock::test
