// Fields that one thread writes and another reads, protected only by a mutex. The threads signal their progress
// without any memory order, so ThreadSanitizer reports a missing mutex.

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

// A counter that is written and read without any memory order.
class Mark {
 public:
  void set() { count_.fetch_add(1, std::memory_order_relaxed); }
  int count() const { return count_.load(std::memory_order_relaxed); }
  bool await(int count) const {
    const Deadline deadline = Deadline::after(kStuck);
    while (this->count() < count) {
      if (deadline.passedAt(now())) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
  }

 private:
  std::atomic<int> count_{0};
};

// If a thread has a mark, sets the mark each time the thread has searched for a cycle.
struct Looks {
  static inline thread_local Mark* mine = nullptr;

  Looks() {
    onSeam([](const char* point) {
      if (mine && std::strcmp(point, "refuse: before the second look") == 0) mine->set();
    });
  }
  ~Looks() { onSeam(nullptr); }
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;
};

}  // namespace

TEST(Race, DoesNotHappenBetweenAThreadThatEndsAndOneThatWakesIt) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer ending(memory);
  ASSERT_TRUE(holder.client.take(0));
  ending.client.pend({0});
  makeHandOverDue(holder.client, 0);
  Mark woken;
  std::thread releasing([&] {
    EXPECT_TRUE(holder.client.release({0}));
    woken.set();
  });
  EXPECT_TRUE(woken.await(1));
  ending.environment.end();
  releasing.join();
  EXPECT_EQ(memory.word(0).load(), 0u);
}

TEST(Race, DoesNotHappenBetweenAThreadThatContinuesAndOneThatLooksForCycles) {
  const UsualSlices slices;
  // The stripes are in different shards, so that the threads share only the mutex of the wait graph.
  SharedMemory memory(200);
  Peer holder(memory);
  Peer leaving(memory);
  Peer looking(memory);
  ASSERT_TRUE(holder.client.take(199));
  ASSERT_TRUE(leaving.client.take(0));
  Mark leavingLooks;
  Mark lookingLooks;
  Mark left;
  const Looks looks;
  std::thread leavingThread([&] {
    Looks::mine = &leavingLooks;
    EXPECT_EQ(leaving.client.sync({199}, {.timeout = kStuck}), Status::kGranted);
    left.set();
  });
  EXPECT_TRUE(leavingLooks.await(1));
  Blocking wait(looking.client, {0}, {.timeout = kStuck},
                {.requested =
                     [](void* mark) {
                       Looks::mine = static_cast<Mark*>(mark);
                       return false;
                     },
                 .data = &lookingLooks});
  EXPECT_TRUE(lookingLooks.await(1));
  EXPECT_TRUE(holder.client.release({199}));
  EXPECT_TRUE(left.await(1));
  EXPECT_TRUE(lookingLooks.await(lookingLooks.count() + 2));
  // After this, the main thread uses the client of the ended thread.
  leavingThread.join();
  EXPECT_TRUE(leaving.client.release({0}));
  EXPECT_EQ(wait.status(), Status::kGranted);
}

}  // namespace stripelock::test
