
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "core/table/sync_wait.h"
#include "test/support.h"

namespace stripelock::test {

TEST(Deadlock, IsRefusedThroughASharedSetThatIsOnlyPartlyTaken) {
  const UsualSlices slices;
  SharedMemory memory(2);
  Peer reader(memory);
  Peer writer(memory);
  ASSERT_TRUE(writer.client.take(1));
  // This waiter has taken stripe 0, which is not counted as its hold yet, and waits for stripe 1.
  Blocking both(reader.client, {0, 1}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(writer.client, 1, 1));
  Blocking first(writer.client, {0});
  ASSERT_TRUE(eventually([&] { return both.decided() || first.decided(); }));
  if (both.decided()) {
    EXPECT_EQ(both.status(), Status::kDeadlock);
    EXPECT_EQ(first.status(), Status::kGranted);
  } else {
    EXPECT_EQ(first.status(), Status::kDeadlock);
    EXPECT_TRUE(writer.client.release({1}));
    EXPECT_EQ(both.status(), Status::kGranted);
  }
}

TEST(Deadlock, IsRefusedThroughASharedReaderBehindAWriter) {
  const UsualSlices slices;
  SharedMemory memory(2);
  Peer holder(memory);
  Peer writer(memory);
  Peer reader(memory);
  ASSERT_TRUE(holder.client.take(0, Mode::kShared));
  ASSERT_TRUE(reader.client.take(1));
  Blocking exclusive(writer.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  Blocking shared(reader.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
  // This thread waits for the reader, the reader for the writer, and the writer for this thread's shared hold. Any of
  // the three may be refused.
  Blocking second(holder.client, {1});
  ASSERT_TRUE(eventually([&] { return exclusive.decided() || shared.decided() || second.decided(); }));
  if (exclusive.decided()) {
    EXPECT_EQ(exclusive.status(), Status::kDeadlock);
    EXPECT_EQ(shared.status(), Status::kGranted);
    EXPECT_TRUE(reader.client.release({1}));
    EXPECT_EQ(second.status(), Status::kGranted);
  } else if (second.decided()) {
    EXPECT_EQ(second.status(), Status::kDeadlock);
    EXPECT_TRUE(holder.client.release({0}, Mode::kShared));
    EXPECT_EQ(exclusive.status(), Status::kGranted);
    EXPECT_TRUE(writer.client.release({0}));
    EXPECT_EQ(shared.status(), Status::kGranted);
  } else {
    EXPECT_EQ(shared.status(), Status::kDeadlock);
    EXPECT_TRUE(reader.client.release({1}));
    EXPECT_EQ(second.status(), Status::kGranted);
    EXPECT_TRUE(holder.client.release({0}, Mode::kShared));
    EXPECT_EQ(exclusive.status(), Status::kGranted);
  }
}

TEST(Deadlock, GivesBackWhatTheRefusedOneHadTaken) {
  const UsualSlices slices;
  SharedMemory memory(4);
  Peer one(memory);
  Peer other(memory);
  ASSERT_TRUE(one.client.take(3));
  ASSERT_TRUE(other.client.take(2));
  Blocking waiting(other.client, {3});
  ASSERT_TRUE(awaitWaiters(one.client, 3, 1));
  Blocking set(one.client, {0, 1, 2});
  ASSERT_TRUE(eventually([&] { return set.decided() || waiting.decided(); }));
  if (set.decided()) {
    EXPECT_EQ(set.status(), Status::kDeadlock);
    EXPECT_EQ(memory.word(0).load(), 0u);
    EXPECT_EQ(memory.word(1).load(), 0u);
    EXPECT_TRUE(one.client.release({3}));
    EXPECT_EQ(waiting.status(), Status::kGranted);
  } else {
    EXPECT_EQ(waiting.status(), Status::kDeadlock);
    EXPECT_TRUE(other.client.release({2}));
    EXPECT_EQ(set.status(), Status::kGranted);
  }
}

namespace {

void expectRefusedAtOnce(Client& client, const Stripes& stripes, Ask ask, std::uint32_t stripe) {
  const SyncOutcome outcome = client.acquireSync(stripes, ask);
  ASSERT_EQ(outcome.status, Status::kDeadlock);
  ASSERT_EQ(outcome.cycle.size(), 1u);
  EXPECT_EQ(outcome.cycle[0].threadId, client.environment().threadId());
  EXPECT_EQ(outcome.cycle[0].stripe, stripe);
}

}  // namespace

TEST(Deadlock, IsRefusedBeforeWaitingForAnEarlierStripe) {
  SharedMemory memory(3);
  Peer holder(memory);
  Peer peer(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(peer.client.take(2));
  expectRefusedAtOnce(peer.client, {0, 1, 2}, {}, 2);
}

TEST(Deadlock, IsRefusedToAnUpgradeFromSharedToExclusive) {
  SharedMemory memory(2);
  Peer peer(memory);
  Peer other(memory);
  ASSERT_TRUE(peer.client.take(1, Mode::kShared));
  expectRefusedAtOnce(peer.client, {1}, {}, 1);
  ASSERT_TRUE(other.client.take(1, Mode::kShared));
  expectRefusedAtOnce(peer.client, {0, 1}, {}, 1);
  EXPECT_EQ(memory.word(1).load(), kShared + 2);
  EXPECT_EQ(memory.word(0).load(), 0u);
}

TEST(Deadlock, IsRefusedToASharedReEntryBehindAQueuedWriter) {
  SharedMemory memory(1);
  Peer peer(memory);
  Peer writer(memory);
  ASSERT_TRUE(peer.client.take(0, Mode::kShared));
  EXPECT_EQ(peer.client.sync({0}, {.mode = Mode::kShared}), Status::kGranted);
  EXPECT_TRUE(peer.client.release({0}, Mode::kShared));
  const std::uint32_t waiting = writer.client.pend({0});
  expectRefusedAtOnce(peer.client, {0}, {.mode = Mode::kShared}, 0);
  EXPECT_TRUE(writer.async().cancel(waiting));
  EXPECT_EQ(peer.client.sync({0}, {.mode = Mode::kShared}), Status::kGranted);
}

TEST(Deadlock, IsRefusedToASharedReEntryWhenTheWriterComesInTheLastInstant) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Peer peer(memory);
  Peer writer(memory);
  ASSERT_TRUE(peer.client.take(0, Mode::kShared));
  // With this flag, the re-entry fails at first, and then searches for writers.
  memory.word(0).fetch_or(kQueued);
  Barrier barrier("proceed: before the next shard");
  Blocking blocking(peer.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(barrier.awaitArrival());
  writer.client.pend({0});
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kDeadlock);
  EXPECT_EQ(memory.word(0).load(), (kShared + 1) | kQueued);
}

TEST(Deadlock, IsNotSeenInAChainThatEndsAtARunningThread) {
  const UsualSlices slices;
  SharedMemory memory(3);
  Peer running(memory);
  Peer middle(memory);
  Peer end(memory);
  ASSERT_TRUE(running.client.take(0));
  ASSERT_TRUE(middle.client.take(1));
  Blocking first(middle.client, {0});
  Blocking second(end.client, {1});
  // This is longer than the search for a deadlock takes.
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 3 * kSlice));
  EXPECT_FALSE(first.decided());
  EXPECT_FALSE(second.decided());
  EXPECT_TRUE(running.client.release({0}));
  EXPECT_EQ(first.status(), Status::kGranted);
  EXPECT_TRUE(middle.client.release({1}));
  EXPECT_EQ(second.status(), Status::kGranted);
}

TEST(Deadlock, IsNotSeenInACycleThatAnAsyncWaiterCloses) {
  const UsualSlices slices;
  SharedMemory memory(2);
  Peer one(memory);
  Peer other(memory);
  ASSERT_TRUE(one.client.take(0));
  ASSERT_TRUE(other.client.take(1));
  Blocking blocking(one.client, {1});
  ASSERT_TRUE(awaitWaiters(other.client, 1, 1));
  // The main thread does not block, so it can release its stripe.
  other.client.pend({0});
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 2 * kSlice));
  EXPECT_FALSE(blocking.decided());
  EXPECT_TRUE(other.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(one.client.release({0}));
  EXPECT_EQ(awaitGrants(other.environment).size(), 1u);
}

TEST(Deadlock, IsNotSeenInAWaitThatHasJustBeenGranted) {
  const UsualSlices slices;
  SharedMemory memory(2);
  Peer writer(memory);
  Peer granted(memory);
  Peer peer(memory);
  ASSERT_TRUE(writer.client.take(0));
  ASSERT_TRUE(granted.client.take(1));
  Blocking reader(granted.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(writer.client, 0, 1));
  peer.client.pend({0}, {.mode = Mode::kShared});
  // The reader is in the wait graph now. It stays stopped while both threads are granted the stripe.
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kFirstSlice));
  Barrier barrier("wait: before parking");
  ASSERT_TRUE(barrier.awaitArrival());
  EXPECT_TRUE(writer.client.release({0}));
  ASSERT_EQ(awaitGrants(peer.environment).size(), 1u);
  // The peer blocks for a stripe of a thread that was granted its last stripe, but has not collected the grant.
  Blocking blocking(peer.client, {1});
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 2 * kSlice));
  EXPECT_FALSE(blocking.decided());
  barrier.open();
  EXPECT_EQ(reader.status(), Status::kGranted);
  EXPECT_TRUE(granted.client.release({1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST(Deadlock, IsNotSeenInWhatWasGrantedToABlockedThreadThatHasYetToNotice) {
  const UsualSlices slices;
  SharedMemory memory(2);
  Peer holder(memory);
  Peer peer(memory);
  Peer other(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(other.client.take(1));
  peer.client.pend({0});
  Blocking behind(other.client, {0}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
  Barrier barrier("grant: before it is told");
  makeHandOverDue(holder.client, 0);
  std::thread releasing([&] { EXPECT_TRUE(holder.client.release({0})); });
  ASSERT_TRUE(barrier.awaitArrival());
  // According to the word, this thread holds the other thread's stripe. It gives the stripe back as soon as it collects
  // the grant.
  Blocking blocking(peer.client, {1}, {.timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
  std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 3 * kSlice));
  EXPECT_FALSE(blocking.decided());
  EXPECT_FALSE(behind.decided());
  barrier.open();
  releasing.join();
  EXPECT_EQ(behind.status(), Status::kGranted);
  EXPECT_TRUE(other.client.release({0, 1}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(peer.client.release({1}));
}

namespace {

// Stops the first thread between its two passes, and makes another thread leave its wait during that time.
struct BetweenLooks {
  static inline thread_local bool stops = false;
  static inline std::atomic<bool> stopped{false};
  static inline std::atomic<bool> open{false};

  BetweenLooks() {
    stopped.store(false);
    open.store(false);
    onSeam([](const char* point) {
      if (!stops || std::strcmp(point, "refuse: before the second look") != 0 || stopped.exchange(true))
        return;
      while (!open.load()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    });
  }
  ~BetweenLooks() {
    open.store(true);
    onSeam(nullptr);
  }
  BetweenLooks(const BetweenLooks&) = delete;
  BetweenLooks& operator=(const BetweenLooks&) = delete;

  // Called for both threads at the end of each slice, before the search.
  static bool staying(void*) {
    stops = true;
    return false;
  }
  static bool leaving(void*) { return stopped.load(); }
};

}  // namespace

TEST(Deadlock, IsNotSeenInACycleThatOneLeavesBetweenTheTwoLooks) {
  const UsualSlices slices;
  const Nanoseconds end = now() + static_cast<Nanoseconds>(kStuck * 1e6);
  for (bool left = false; !left;) {
    ASSERT_LT(now(), end);
    SharedMemory memory(2);
    Peer one(memory);
    Peer other(memory);
    ASSERT_TRUE(one.client.take(0));
    ASSERT_TRUE(other.client.take(1));
    // Declared before `looks`, so joined when no thread is stopped any more.
    std::optional<Blocking> leaving;
    std::optional<Blocking> staying;
    BetweenLooks looks;
    leaving.emplace(other.client, Stripes{0}, Ask{}, Interrupt{.requested = BetweenLooks::leaving});
    // By then the thread is in the wait graph.
    std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kFirstSlice));
    staying.emplace(one.client, Stripes{1}, Ask{}, Interrupt{.requested = BetweenLooks::staying});
    ASSERT_TRUE(eventually([] { return BetweenLooks::stopped.load(); }));
    // The leaving thread may have been about to search, too. Then it must wait until the stopped search has ended, and
    // this round does not count.
    const Nanoseconds soon = now() + 10 * kSlice;
    while (!left && now() < soon) left = waitersOf(one.client, 0) == 0;
    looks.open.store(true);
    if (left) {
      EXPECT_EQ(leaving->status(), Status::kInterrupted);
      EXPECT_TRUE(other.client.release({1}));
      EXPECT_EQ(staying->status(), Status::kGranted);
      EXPECT_TRUE(one.client.release({1}));
    } else {
      leaving->join();
      EXPECT_TRUE(other.client.release({1}));
      if (staying->status() == Status::kGranted) {
        EXPECT_TRUE(one.client.release({1}));
      }
    }
  }
}

}  // namespace stripelock::test
