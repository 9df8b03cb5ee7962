// When the head of a queue may no longer be passed over (StripeQueue::fairAt), and what starts that clock anew.

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

Nanoseconds fairAtOf(Client& client, std::uint32_t stripe) {
  const Lock lock(client.table().shardOf(stripe));
  return client.table().queueOf(stripe).fairAt;
}

// Whose turn it is next.
const Participant* headOf(Client& client, std::uint32_t stripe) {
  const Lock lock(client.table().shardOf(stripe));
  const Waiter* const head = client.table().queueOf(stripe).head;
  return head ? head->owner : nullptr;
}

// One that is neither past nor what a clock that starts now would say.
Nanoseconds markOf(Client& client, std::uint32_t stripe) {
  putHandOverOff(client, stripe);
  return fairAtOf(client, stripe);
}

}  // namespace

TEST(FairnessClock, RunsOnWhileAThreadServesItsOwnWaiters) {
  SharedMemory memory(1);
  Peer local(memory);
  Peer remote(memory);
  ASSERT_TRUE(local.client.take(0));
  remote.client.pend({0});
  local.client.pend({0});
  local.client.pend({0});
  const Nanoseconds mark = markOf(local.client, 0);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(local.client.release({0}));
    ASSERT_EQ(takeGrants(local.environment).size(), 1u);
    EXPECT_EQ(fairAtOf(local.client, 0), mark);
  }
  EXPECT_EQ(headOf(local.client, 0), &remote.environment.participant());
}

TEST(FairnessClock, StartsWhenTheQueueForms) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer first(memory);
  Peer second(memory);
  ASSERT_TRUE(holder.client.take(0));
  const Nanoseconds before = now();
  first.client.pend({0});
  const Nanoseconds after = now();
  const Nanoseconds start = fairAtOf(holder.client, 0);
  EXPECT_GE(start, before + kFairness);
  EXPECT_LE(start, after + kFairness);
  second.client.pend({0});
  EXPECT_EQ(fairAtOf(holder.client, 0), start);
}

TEST(FairnessClock, StartsAnewForTheNextWhenTheHeadIsGranted) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer first(memory);
  Peer second(memory);
  ASSERT_TRUE(holder.client.take(0));
  first.client.pend({0});
  second.client.pend({0});
  makeHandOverDue(holder.client, 0);
  const Nanoseconds before = now();
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_GE(fairAtOf(holder.client, 0), before + kFairness);
  EXPECT_LE(fairAtOf(holder.client, 0), now() + kFairness);
}

TEST(FairnessClock, StartsAnewForTheNextWhenReadersAreGranted) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer reader(memory);
  Peer writer(memory);
  ASSERT_TRUE(holder.client.take(0));
  reader.client.pend({0}, {.mode = Mode::kShared});
  writer.client.pend({0});
  makeHandOverDue(holder.client, 0);
  const Nanoseconds before = now();
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(memory.word(0).load(), (kShared + 1) | kQueued);
  EXPECT_GE(fairAtOf(holder.client, 0), before + kFairness);
  EXPECT_LE(fairAtOf(holder.client, 0), now() + kFairness);
}

TEST(FairnessClock, StartsAnewForTheNextWhenADesignatedWaiterTakesTheStripe) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer first(memory);
  Peer second(memory);
  ASSERT_TRUE(holder.client.take(0));
  first.client.pend({0});
  second.client.pend({0});
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_EQ(memory.word(0).load(), 0u);
  const Nanoseconds before = now();
  ASSERT_EQ(takeGrants(first.environment).size(), 1u);
  EXPECT_GE(fairAtOf(holder.client, 0), before + kFairness);
  EXPECT_LE(fairAtOf(holder.client, 0), now() + kFairness);
}

TEST(FairnessClock, IsNotStartedAnewByAWaiterThatFindsItsStripeTaken) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer first(memory);
  ASSERT_TRUE(holder.client.take(0));
  first.client.pend({0});
  const Nanoseconds mark = markOf(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_TRUE(holder.client.take(0));
  EXPECT_TRUE(takeGrants(first.environment).empty());
  EXPECT_EQ(memory.word(0).load(), holder.slot() | kQueued);
  EXPECT_EQ(fairAtOf(holder.client, 0), mark);
}

TEST(FairnessClock, StartsForAPutOffWaiterThatComesBackToAnEmptyQueue) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  waiter.client.pend({0});
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  const Nanoseconds before = now();
  waiter.environment.participant().block();
  EXPECT_EQ(memory.word(0).load(), 0u);
  EXPECT_GE(fairAtOf(holder.client, 0), before + kFairness);
  waiter.environment.participant().unblock();
  ASSERT_EQ(takeGrants(waiter.environment).size(), 1u);
}

TEST(FairnessClock, StandsForOthersWhenAPutOffWaiterComesBack) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  Peer other(memory);
  ASSERT_TRUE(holder.client.take(0));
  waiter.client.pend({0});
  other.client.pend({0});
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  const Nanoseconds mark = fairAtOf(holder.client, 0);
  // Taken before the one whose turn it is has come.
  ASSERT_TRUE(holder.client.take(0));
  waiter.environment.participant().block();
  EXPECT_EQ(fairAtOf(holder.client, 0), mark);
  EXPECT_EQ(headOf(holder.client, 0), &waiter.environment.participant());
  waiter.environment.participant().unblock();
}

// A waiter that gave up its turn for a sync wait of its thread comes back by its time of arrival.

TEST(Requeue, PutsTheFirstBeforeThoseWhoCameLater) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer first(memory);
  Peer second(memory);
  Peer third(memory);
  ASSERT_TRUE(holder.client.take(0));
  const std::uint32_t id = first.client.pend({0});
  second.client.pend({0});
  third.client.pend({0});
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_EQ(memory.word(0).load(), first.slot() | kQueued);
  first.environment.participant().block();
  first.environment.participant().unblock();
  EXPECT_EQ(headOf(holder.client, 0), &first.environment.participant());
  ASSERT_EQ(awaitGrants(second.environment).size(), 1u);
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(second.client.release({0}));
  const auto grants = awaitGrants(first.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
}

TEST(Requeue, PutsOneBetweenThoseWhoCameBeforeAndAfter) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer first(memory);
  Peer middle(memory);
  Peer last(memory);
  ASSERT_TRUE(holder.client.take(0));
  for (Peer* peer : {&first, &middle, &last}) peer->client.pend({0});
  // The first is passed over while its thread blocks.
  first.environment.participant().block();
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_EQ(holderOf(memory.word(0).load()), middle.slot());
  middle.environment.participant().block();
  ASSERT_EQ(awaitGrants(last.environment).size(), 1u);
  middle.environment.participant().unblock();
  first.environment.participant().unblock();
  Peer* current = &last;
  for (Peer* peer : {&first, &middle}) {
    makeHandOverDue(holder.client, 0);
    EXPECT_TRUE(current->client.release({0}));
    ASSERT_EQ(awaitGrants(peer->environment).size(), 1u);
    current = peer;
  }
}

}  // namespace stripelock::test
