// Tests which waits are edges of the wait graph: only waits that cannot end while both threads block.

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "core/table/sync_wait.h"
#include "test/support.h"

namespace stripelock::test {

namespace {

// Waits longer than it takes to find a cycle.
void letThemLook() { std::this_thread::sleep_for(std::chrono::nanoseconds(kFirstSlice + 3 * kSlice)); }

// `holder` shares stripe 0, and `reader` holds stripe 1. An async writer waits for stripe 0. The reader blocks behind
// the writer for a shared hold of stripe 0, and the holder blocks for stripe 1.
struct BehindAWriter {
  explicit BehindAWriter(double writersTimeout) {
    EXPECT_TRUE(holder.client.take(0, Mode::kShared));
    EXPECT_TRUE(reader.client.take(1));
    id = writer.client.pend({0}, {.timeout = writersTimeout});
  }

  SharedMemory memory{2};
  Peer holder{memory};
  Peer writer{memory};
  Peer reader{memory};
  std::uint32_t id = 0;
};

}  // namespace

TEST(WaitEdges, DoNotLeadPastAnAsyncWriterThatMayGiveUp) {
  const UsualSlices slices;
  BehindAWriter world(kStuck);
  Blocking shared(world.reader.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(world.holder.client, 0, 2));
  Blocking second(world.holder.client, {1});
  letThemLook();
  EXPECT_FALSE(shared.decided());
  EXPECT_FALSE(second.decided());
  EXPECT_TRUE(world.writer.async().cancel(world.id));
  EXPECT_EQ(shared.status(), Status::kGranted);
  EXPECT_TRUE(world.reader.client.release({1}));
  EXPECT_EQ(second.status(), Status::kGranted);
}

TEST(WaitEdges, LeadPastAnAsyncWriterThatWillNotGiveUp) {
  const UsualSlices slices;
  BehindAWriter world(kForever);
  Blocking shared(world.reader.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(world.holder.client, 0, 2));
  Blocking second(world.holder.client, {1});
  ASSERT_TRUE(eventually([&] { return shared.decided() || second.decided(); }));
  EXPECT_TRUE((shared.decided() && shared.status() == Status::kDeadlock) ||
              (second.decided() && second.status() == Status::kDeadlock));
  EXPECT_TRUE(world.writer.async().cancel(world.id));
  EXPECT_TRUE(world.holder.client.release({0}, Mode::kShared));
  EXPECT_TRUE(world.reader.client.release({1}));
}

TEST(WaitEdges, DoNotLeadToAReaderFromOneThatWaitsToReadToo) {
  const UsualSlices slices;
  SharedMemory memory(2);
  Peer holder(memory);
  Peer writer(memory);
  Peer reader(memory);
  ASSERT_TRUE(holder.client.take(0, Mode::kShared));
  ASSERT_TRUE(reader.client.take(1));
  Blocking exclusive(writer.client, {0}, {.timeout = 60});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  Blocking shared(reader.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
  // The holder's thread runs, so there is no cycle. After the writer has given up, the reader shares the stripe.
  EXPECT_EQ(exclusive.status(), Status::kTimedOut);
  EXPECT_EQ(shared.status(), Status::kGranted);
}

TEST(WaitEdges, DoNotLeadFromASecondSharedHoldPastAnAsyncWriterThatGivesUp) {
  const UsualSlices slices;
  SharedMemory memory(1);
  Peer peer(memory);
  Peer writer(memory);
  ASSERT_TRUE(peer.client.take(0, Mode::kShared));
  writer.client.pend({0}, {.timeout = 30});
  Blocking again(peer.client, {0}, {.mode = Mode::kShared, .timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(writer.client, 0, 2));
  letThemLook();
  EXPECT_FALSE(again.decided());
  ASSERT_EQ(takeExpired(writer.environment).size(), 1u);
  EXPECT_EQ(again.status(), Status::kGranted);
}

TEST(WaitEdges, LeadToEachOfSeveralReaders) {
  const UsualSlices slices;
  // Each reader is the blocked one in one round.
  for (const std::size_t blocked : {0u, 1u, 2u}) {
    SharedMemory memory(2);
    Peer readers[3]{Peer(memory), Peer(memory), Peer(memory)};
    Peer writer(memory);
    for (Peer& reader : readers) ASSERT_TRUE(reader.client.take(0, Mode::kShared));
    ASSERT_TRUE(writer.client.take(1));
    Blocking exclusive(writer.client, {0});
    ASSERT_TRUE(awaitWaiters(writer.client, 0, 1));
    Blocking closing(readers[blocked].client, {1});
    ASSERT_TRUE(eventually([&] { return exclusive.decided() || closing.decided(); }))
        << "nobody sees the cycle through reader " << blocked;
    if (exclusive.decided()) {
      EXPECT_EQ(exclusive.status(), Status::kDeadlock);
      EXPECT_TRUE(writer.client.release({1}));
      EXPECT_EQ(closing.status(), Status::kGranted);
    } else {
      EXPECT_EQ(closing.status(), Status::kDeadlock);
      for (Peer& reader : readers) EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
      EXPECT_EQ(exclusive.status(), Status::kGranted);
    }
  }
}

TEST(WaitEdges, DoNotStartAtAWaiterThatHasItsStripeAndGoesOn) {
  const UsualSlices slices;
  // The busy waiter is not revoked, so it can only be overtaken.
  const Patience endless(kAnHour);
  SharedMemory memory(3);
  Peer holder(memory);
  Peer busy(memory);
  Peer reader(memory);
  Peer other(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(1));
  ASSERT_TRUE(reader.client.take(2));
  const std::uint32_t id = busy.client.pend({0});
  Blocking both(reader.client, {0, 1}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
  // By then the reader is in the wait graph.
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kFirstSlice));
  Barrier barrier("go on: before the next stripe");
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  // The busy thread's event loop does not run, so the reader overtakes that thread's waiter at the first stripe.
  ASSERT_TRUE(barrier.awaitArrival());
  ASSERT_TRUE(other.client.take(0, Mode::kShared));
  Blocking waiting(other.client, {2});
  letThemLook();
  EXPECT_FALSE(waiting.decided()) << "the reader waits for nothing that this thread has";
  barrier.open();
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(both.status(), Status::kGranted);
  EXPECT_TRUE(reader.client.release({2}));
  EXPECT_EQ(waiting.status(), Status::kGranted);
  EXPECT_TRUE(reader.client.release({0, 1}, Mode::kShared));
  EXPECT_TRUE(other.client.release({0}, Mode::kShared));
  EXPECT_TRUE(busy.async().cancel(id));
}

TEST(WaitEdges, StartAtAWaiterThatWasServedAndWaitsForItsNextStripe) {
  const UsualSlices slices;
  SharedMemory memory(3);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(1));
  ASSERT_TRUE(waiter.client.take(2));
  Blocking both(waiter.client, {0, 1});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  // The waiter is designated, so that it takes the stripe itself.
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
  Blocking closing(holder.client, {2});
  ASSERT_TRUE(eventually([&] { return both.decided() || closing.decided(); })) << "nobody sees the cycle";
  if (both.decided()) {
    EXPECT_EQ(both.status(), Status::kDeadlock);
    EXPECT_TRUE(waiter.client.release({2}));
    EXPECT_EQ(closing.status(), Status::kGranted);
    EXPECT_TRUE(holder.client.release({1, 2}));
  } else {
    EXPECT_EQ(closing.status(), Status::kDeadlock);
    EXPECT_TRUE(holder.client.release({1}));
    EXPECT_EQ(both.status(), Status::kGranted);
    EXPECT_TRUE(waiter.client.release({0, 1, 2}));
  }
}

}  // namespace stripelock::test
