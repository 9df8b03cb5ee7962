// Waits for stripes that the thread itself holds, which are refused at once, and waits that only look like that.

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

void expectRefusedAtOnce(Client& client, const Stripes& stripes, Ask ask, std::uint32_t stripe) {
  const SyncOutcome outcome = client.acquireSync(stripes, ask);
  ASSERT_EQ(outcome.status, Status::kDeadlock);
  ASSERT_EQ(outcome.cycle.size(), 1u);
  EXPECT_EQ(outcome.cycle[0].threadId, client.environment().threadId());
  EXPECT_EQ(outcome.cycle[0].stripe, stripe);
}

}  // namespace

TEST(Deadlock, IsRefusedToAThreadThatWaitsForItself) {
  SharedMemory memory(4);
  Peer peer(memory);
  ASSERT_TRUE(peer.client.take(2));
  for (const Mode mode : kEachMode) {
    expectRefusedAtOnce(peer.client, {2}, {.mode = mode}, 2);
    expectRefusedAtOnce(peer.client, {0, 1, 2, 3}, {.mode = mode, .timeout = 1e6}, 2);
  }
  EXPECT_EQ(countHeld(peer.client.table()), 1u);
  EXPECT_EQ(memory.cell(kContendedCell), 0);
  EXPECT_TRUE(peer.client.release({2}));
}

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
  // The flag keeps the re-entry from succeeding before it looks for writers.
  memory.word(0).fetch_or(kQueued);
  Barrier barrier("proceed: before the next shard");
  Blocking blocking(peer.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(barrier.awaitArrival());
  writer.client.pend({0});
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kDeadlock);
  EXPECT_EQ(memory.word(0).load(), (kShared + 1) | kQueued);
}

TEST(Deadlock, IsNotSeenInAnAttemptThatDoesNotWait) {
  SharedMemory memory(1);
  Peer peer(memory);
  ASSERT_TRUE(peer.client.take(0));
  EXPECT_EQ(peer.client.sync({0}, {.timeout = 0}), Status::kTimedOut);
  EXPECT_EQ(peer.client.acquire({0}, {.timeout = 0}).status, AsyncStart::kTimedOut);
}

TEST(Deadlock, IsNotSeenInAnAsyncWaitForItsOwnThread) {
  SharedMemory memory(1);
  Peer peer(memory);
  ASSERT_TRUE(peer.client.take(0));
  peer.client.pend({0});
  EXPECT_TRUE(peer.client.release({0}));
  EXPECT_EQ(takeGrants(peer.environment).size(), 1u);
}

}  // namespace stripelock::test
