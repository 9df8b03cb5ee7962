#include "core/base/short_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "test/support.h"

namespace stripelock::test {

TEST(ShortMutex, AdmitsOneThreadAtATime) {
  ShortMutex mutex;
  // These are not atomic, so TSan reports two threads inside at once.
  int inside = 0;
  int total = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20'000; ++round) {
        const ShortLock lock(mutex);
        EXPECT_EQ(++inside, 1);
        ++total;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, 80'000);
}

TEST(ShortMutex, IsTakenOnceWithoutWaiting) {
  ShortMutex mutex;
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(ShortMutex, IsWaitedForAsleepIfItsHolderTakesLong) {
  ShortMutex mutex;
  mutex.lock();
  Barrier barrier("short mutex: before a nap");
  std::atomic<bool> locked{false};
  std::thread waiting([&] {
    const ShortLock lock(mutex);
    locked.store(true);
  });
  ASSERT_TRUE(barrier.awaitArrival());
  barrier.open();
  // Long enough for several naps.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(locked.load());
  mutex.unlock();
  waiting.join();
  EXPECT_TRUE(locked.load());
}

}  // namespace stripelock::test
