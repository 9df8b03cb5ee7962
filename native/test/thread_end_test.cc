// A thread ends for any reason. Other threads get its stripes, and its waits are removed.

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

TEST(ThreadEnd, FreesWhatTheThreadHeldAndTellsTheNextHolderOnce) {
  SharedMemory memory(2);
  Peer dying(memory);
  Peer next(memory);
  ASSERT_TRUE(dying.client.take(0));
  dying.environment.end();
  EXPECT_EQ(memory.word(0).load(), kAbandoned);
  EXPECT_EQ(memory.word(1).load(), 0u);
  EXPECT_EQ(memory.cell(kAbandonedCell), 1);
  // The fast path cannot report the death, so it must not take the stripe.
  EXPECT_FALSE(next.client.take(0));
  EXPECT_TRUE(next.client.acquireSync({0}).abandoned);
  EXPECT_EQ(memory.word(0).load(), next.slot() | kAbandoned);
  EXPECT_TRUE(next.client.release({0}));
  EXPECT_EQ(memory.word(0).load(), 0u);
  EXPECT_FALSE(next.client.acquireSync({0}).abandoned);
}

TEST(ThreadEnd, TellsASyncWaiter) {
  SharedMemory memory(1);
  Peer dying(memory);
  Peer waiter(memory);
  ASSERT_TRUE(dying.client.take(0));
  Blocking blocking(waiter.client, {0});
  ASSERT_TRUE(awaitWaiters(waiter.client, 0, 1));
  dying.environment.end();
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(blocking.join().abandoned);
}

TEST(ThreadEnd, TellsReadersAndStillTheNextWriter) {
  SharedMemory memory(1);
  Peer dying(memory);
  Peer reader(memory);
  Peer writer(memory);
  ASSERT_TRUE(dying.client.take(0));
  dying.environment.end();
  EXPECT_TRUE(reader.client.acquireSync({0}, {.mode = Mode::kShared}).abandoned);
  EXPECT_TRUE(reader.client.acquireSync({0}, {.mode = Mode::kShared}).abandoned);
  EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  EXPECT_TRUE(writer.client.acquireSync({0}).abandoned);
  EXPECT_TRUE(writer.client.release({0}));
  EXPECT_FALSE(reader.client.acquireSync({0}, {.mode = Mode::kShared}).abandoned);
}

TEST(ThreadEnd, GivesBackItsSharesAndNobodyElses) {
  SharedMemory memory(1);
  Peer dying(memory);
  Peer reader(memory);
  Peer writer(memory);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(dying.client.take(0, Mode::kShared));
  ASSERT_TRUE(reader.client.take(0, Mode::kShared));
  writer.client.pend({0});
  dying.environment.end();
  EXPECT_EQ(memory.word(0).load(), (kShared + 1) | kQueued);
  EXPECT_FALSE(writer.async().hasReady());
  EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  const auto grants = awaitGrants(writer.environment);
  EXPECT_EQ(grants.size(), 1u);
}

TEST(ThreadEnd, DoesNotTellOfAReaderButOfTheWriterBeforeIt) {
  SharedMemory memory(1);
  Peer first(memory);
  Peer writer(memory);
  Peer second(memory);
  Peer next(memory);
  ASSERT_TRUE(first.client.take(0, Mode::kShared));
  first.environment.end();
  EXPECT_EQ(memory.word(0).load(), 0u);
  EXPECT_EQ(memory.cell(kAbandonedCell), 0);
  ASSERT_TRUE(writer.client.take(0));
  writer.environment.end();
  ASSERT_TRUE(second.client.acquireSync({0}, {.mode = Mode::kShared}).abandoned);
  second.environment.end();
  EXPECT_TRUE(next.client.acquireSync({0}).abandoned);
  EXPECT_EQ(memory.cell(kAbandonedCell), 1);
}

TEST(ThreadEnd, KeepsTheFlagWhereAnAcquisitionIsRolledBack) {
  SharedMemory memory(3);
  Peer dying(memory);
  Peer holder(memory);
  Peer peer(memory);
  ASSERT_TRUE(dying.client.take(0));
  ASSERT_TRUE(holder.client.take(2));
  dying.environment.end();
  for (const double timeout : {0.0, 2.0}) {
    EXPECT_EQ(peer.client.sync({0, 2}, {.timeout = timeout}), Status::kTimedOut);
    EXPECT_EQ(memory.word(0).load(), kAbandoned);
  }
  const std::uint32_t pending = peer.client.pend({0, 2});
  EXPECT_TRUE(peer.async().cancel(pending));
  EXPECT_EQ(memory.word(0).load(), kAbandoned);
  EXPECT_TRUE(peer.client.acquireSync({0}).abandoned);
}

TEST(ThreadEnd, KeepsTheFlagWhereTheOneWhoWasToldEndsToo) {
  SharedMemory memory(1);
  Peer first(memory);
  Peer second(memory);
  Peer third(memory);
  ASSERT_TRUE(first.client.take(0));
  first.environment.end();
  ASSERT_TRUE(second.client.acquireSync({0}).abandoned);
  second.environment.end();
  EXPECT_TRUE(third.client.acquireSync({0}).abandoned);
  EXPECT_EQ(memory.cell(kAbandonedCell), 2);
}

TEST(ThreadEnd, PassesOnAGrantThatWasNotHandedOut) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer dying(memory);
  Peer next(memory);
  ASSERT_TRUE(holder.client.take(0));
  dying.client.pend({0, 1});
  next.client.pend({0, 1});
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_EQ(holderOf(memory.word(1).load()), dying.slot());
  dying.environment.end();
  const auto grants = awaitGrants(next.environment);
  ASSERT_EQ(grants.size(), 1u);
  // The dead thread never collected that grant, so no code ran under it.
  EXPECT_FALSE(grants[0].abandoned);
  EXPECT_EQ(memory.cell(kAbandonedCell), 0);
}

TEST(ThreadEnd, PassesOnAGrantThatComesInTheMiddleOfIt) {
  SharedMemory memory(2);
  Peer holder(memory);
  Peer dying(memory);
  Peer next(memory);
  ASSERT_TRUE(holder.client.take(0));
  dying.client.pend({0, 1});
  next.client.pend({0});
  const std::uint32_t slot = dying.slot();
  Barrier barrier("leave: before the waits are cancelled");
  std::thread ending([&] { dying.environment.end(); });
  ASSERT_TRUE(barrier.awaitArrival());
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(holderOf(memory.word(1).load()), slot);
  // No waiter is left to wake.
  EXPECT_EQ(dying.environment.wakes(), 0);
  barrier.open();
  ending.join();
  EXPECT_EQ(awaitGrants(next.environment).size(), 1u);
  EXPECT_EQ(memory.word(1).load(), 0u);
}

TEST(ThreadEnd, TakesTheNotesOfItsThreadWithIt) {
  SharedMemory memory(2);
  Peer keeper(memory);
  Peer dying(memory);
  Notes& notes = keeper.client.table().notes;
  for (Peer* peer : {&keeper, &dying}) {
    notes.add({.membership = &peer->client.membership(),
               .threadId = peer->environment.threadId(),
               .stripes = {0, 1},
               .text = "said",
               .since = now()});
  }
  dying.environment.end();
  const std::vector<Note> left = notes.all();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].threadId, keeper.environment.threadId());
}

}  // namespace stripelock::test
