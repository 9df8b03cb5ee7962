#include "core/descriptor_watch.h"

#if defined(__linux__) || defined(__APPLE__)

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

// Behaves like an event loop's descriptor: it becomes readable when another thread says something.
class Loop {
 public:
  Loop() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Loop() { close(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  int descriptor() const { return ends_[0]; }
  void tell() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  void close() {
    for (int& end : ends_) {
      if (end >= 0) ::close(end);
      end = -1;
    }
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

// Lives forever, as the watch of a participant does.
struct Sleeper {
  Parker parker;
  DescriptorWatch watch{parker};
  bool wokenWithin(double milliseconds) { return parker.park(Deadline::after(milliseconds)); }
};

// Long enough that any wake would have come.
constexpr double kAWhile = 100;

// Reachable, so that LeakSanitizer does not report it.
Sleeper& sleeper() {
  static auto& all = *new std::vector<Sleeper*>();
  return *all.emplace_back(new Sleeper());
}

}  // namespace

TEST(DescriptorWatch, WakesItsThreadWhenTheDescriptorStirs) {
  Loop loop;
  Sleeper& thread = sleeper();
  ASSERT_TRUE(thread.watch.start(loop.descriptor()));
  EXPECT_FALSE(thread.watch.takeStirred());
  loop.tell();
  EXPECT_TRUE(thread.wokenWithin(kStuck));
  EXPECT_TRUE(thread.watch.takeStirred());
  EXPECT_FALSE(thread.watch.takeStirred());
  thread.watch.stop();
}

TEST(DescriptorWatch, TellsOfWhatHappenedBeforeItBegan) {
  Loop loop;
  Sleeper& thread = sleeper();
  loop.tell();
  ASSERT_TRUE(thread.watch.start(loop.descriptor()));
  EXPECT_TRUE(thread.wokenWithin(kStuck));
  EXPECT_TRUE(thread.watch.takeStirred());
  thread.watch.stop();
}

TEST(DescriptorWatch, WakesOnceForADescriptorThatStaysReadableAndAgainWhenItStirsAgain) {
  Loop loop;
  Sleeper& thread = sleeper();
  ASSERT_TRUE(thread.watch.start(loop.descriptor()));
  loop.tell();
  EXPECT_TRUE(thread.wokenWithin(kStuck));
  EXPECT_FALSE(thread.wokenWithin(kAWhile));
  loop.tell();
  EXPECT_TRUE(thread.wokenWithin(kStuck));
  thread.watch.stop();
}

TEST(DescriptorWatch, DoesNotWakeOftenForADescriptorThatStirsAllTheTime) {
  Loop loop;
  Sleeper& thread = sleeper();
  ASSERT_TRUE(thread.watch.start(loop.descriptor()));
  std::atomic<bool> enough{false};
  // The pipe has room for more than this.
  std::thread teller([&] {
    for (int i = 0; i < 20'000 && !enough.load(); ++i) loop.tell();
  });
  // Measures from the first stir.
  EXPECT_TRUE(thread.wokenWithin(kStuck));
  const Nanoseconds start = now();
  const Nanoseconds end = start + 20 * DescriptorWatch::kQuiet;
  int wakes = 1;
  while (now() < end) {
    if (thread.parker.park(Deadline::at(end))) ++wakes;
  }
  const auto periods = static_cast<int>((now() - start) / DescriptorWatch::kQuiet);
  enough.store(true);
  teller.join();
  thread.watch.stop();
  // Per period, one that comes at once, and one that has waited for the end of the pause.
  EXPECT_LE(wakes, 2 * (periods + 1));
}

TEST(DescriptorWatch, IsSilentOnceItHasStopped) {
  Loop loop;
  Sleeper& thread = sleeper();
  ASSERT_TRUE(thread.watch.start(loop.descriptor()));
  thread.watch.stop();
  EXPECT_FALSE(thread.watch.active());
  loop.tell();
  EXPECT_FALSE(thread.wokenWithin(kAWhile));
  EXPECT_FALSE(thread.watch.takeStirred());
}

TEST(DescriptorWatch, RefusesWhatIsNoDescriptor) {
  Sleeper& thread = sleeper();
  EXPECT_FALSE(thread.watch.start(-1));
  EXPECT_FALSE(thread.watch.active());
  Loop loop;
  const int closed = loop.descriptor();
  loop.close();
  EXPECT_FALSE(thread.watch.start(closed));
  EXPECT_FALSE(thread.watch.active());
  thread.watch.stop();
}

TEST(DescriptorWatch, KnowsNothingOfADescriptorThatIsUsedAgain) {
  Sleeper& former = sleeper();
  Sleeper& later = sleeper();
  Loop loop;
  const int number = loop.descriptor();
  ASSERT_TRUE(former.watch.start(number));
  former.watch.stop();
  loop.close();
  Loop again;
  // The system hands out the lowest free number.
  ASSERT_EQ(again.descriptor(), number);
  ASSERT_TRUE(later.watch.start(number));
  again.tell();
  EXPECT_TRUE(later.wokenWithin(kStuck));
  EXPECT_FALSE(former.watch.takeStirred());
  later.watch.stop();
}

TEST(DescriptorWatch, WakesEachOfManyThreads) {
  constexpr int kThreads = 200;
  std::array<Loop, kThreads> loops;
  std::array<Sleeper*, kThreads> sleepers{};
  std::atomic<int> asleep{0};
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    sleepers[i] = &sleeper();
    threads.emplace_back([&, i] {
      ASSERT_TRUE(sleepers[i]->watch.start(loops[i].descriptor()));
      asleep.fetch_add(1);
      if (sleepers[i]->wokenWithin(kStuck)) woken.fetch_add(1);
      sleepers[i]->watch.stop();
    });
  }
  EXPECT_TRUE(eventually([&] { return asleep.load() == kThreads; }));
  for (const Loop& loop : loops) loop.tell();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken.load(), kThreads);
}

}  // namespace stripelock::test

#endif
