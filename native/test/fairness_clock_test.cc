// Tests when the head of a queue may no longer be overtaken (StripeQueue::fairAt), and which events restart that clock.

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

namespace {

class QueueOfOneStripe : public HeldStripe {
 protected:
  Nanoseconds fairAt() {
    const Lock lock(table().shardOf(0));
    return table().queueOf(0).fairAt;
  }
  // Expects that the barging period restarted between the two times.
  void expectStarted(Nanoseconds from, Nanoseconds to) {
    EXPECT_GE(fairAt(), from + kBargingPeriod);
    EXPECT_LE(fairAt(), to + kBargingPeriod);
  }
  // The participant whose waiter is first in the queue.
  const Participant* head() {
    const Lock lock(table().shardOf(0));
    const Waiter* const waiter = table().queueOf(0).head;
    return waiter ? waiter->owner : nullptr;
  }
  // Sets the end of the barging period to a later time than a restart would set, and returns it.
  Nanoseconds mark() {
    putHandOverOff(holder.client, 0);
    return fairAt();
  }

  Peer first{memory};
  Peer second{memory};
  Peer third{memory};
};

class FairnessClock : public QueueOfOneStripe {};
class Requeue : public QueueOfOneStripe {};

}  // namespace

TEST_F(FairnessClock, RunsOnWhileAThreadServesItsOwnWaiters) {
  first.client.pend({0});
  holder.client.pend({0});
  holder.client.pend({0});
  const Nanoseconds marked = mark();
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(holder.client.release({0}));
    ASSERT_EQ(takeGrants(holder.environment).size(), 1u);
    EXPECT_EQ(fairAt(), marked);
  }
  EXPECT_EQ(head(), &first.environment.participant());
}

TEST_F(FairnessClock, StartsWhenTheQueueForms) {
  const Nanoseconds before = now();
  first.client.pend({0});
  const Nanoseconds after = now();
  expectStarted(before, after);
  const Nanoseconds start = fairAt();
  second.client.pend({0});
  EXPECT_EQ(fairAt(), start);
}

TEST_F(FairnessClock, StartsAnewForTheNextWhenTheHeadIsGranted) {
  first.client.pend({0});
  second.client.pend({0});
  makeHandOverDue(holder.client, 0);
  const Nanoseconds before = now();
  EXPECT_TRUE(holder.client.release({0}));
  expectStarted(before, now());
}

TEST_F(FairnessClock, StartsAnewForTheNextWhenReadersAreGranted) {
  first.client.pend({0}, {.mode = Mode::kShared});
  second.client.pend({0});
  makeHandOverDue(holder.client, 0);
  const Nanoseconds before = now();
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(word(), (kShared + 1) | kQueued);
  expectStarted(before, now());
}

TEST_F(FairnessClock, StartsAnewForTheNextWhenADesignatedWaiterTakesTheStripe) {
  first.client.pend({0});
  second.client.pend({0});
  designate();
  ASSERT_EQ(word(), 0u);
  const Nanoseconds before = now();
  ASSERT_EQ(takeGrants(first.environment).size(), 1u);
  expectStarted(before, now());
}

TEST_F(FairnessClock, IsNotStartedAnewByAWaiterThatFindsItsStripeTaken) {
  first.client.pend({0});
  const Nanoseconds marked = mark();
  EXPECT_TRUE(holder.client.release({0}));
  ASSERT_TRUE(holder.client.take(0));
  EXPECT_TRUE(takeGrants(first.environment).empty());
  EXPECT_EQ(word(), holder.slot() | kQueued);
  EXPECT_EQ(fairAt(), marked);
}

TEST_F(FairnessClock, StartsForAPutOffWaiterThatComesBackToAnEmptyQueue) {
  first.client.pend({0});
  handOver();
  const Nanoseconds before = now();
  first.environment.participant().block();
  EXPECT_EQ(word(), 0u);
  EXPECT_GE(fairAt(), before + kBargingPeriod);
  first.environment.participant().unblock();
  ASSERT_EQ(takeGrants(first.environment).size(), 1u);
}

TEST_F(FairnessClock, StandsForOthersWhenAPutOffWaiterComesBack) {
  first.client.pend({0});
  second.client.pend({0});
  designate();
  const Nanoseconds marked = fairAt();
  // Takes the stripe before the designated waiter tries for it.
  ASSERT_TRUE(holder.client.take(0));
  first.environment.participant().block();
  EXPECT_EQ(fairAt(), marked);
  EXPECT_EQ(head(), &first.environment.participant());
  first.environment.participant().unblock();
}

// A waiter that loses its turn because its thread blocks returns to its place by arrival time.

TEST_F(Requeue, PutsTheFirstBeforeThoseWhoCameLater) {
  const std::uint32_t id = first.client.pend({0});
  second.client.pend({0});
  third.client.pend({0});
  handOver();
  ASSERT_EQ(word(), first.slot() | kQueued);
  first.environment.participant().block();
  first.environment.participant().unblock();
  EXPECT_EQ(head(), &first.environment.participant());
  ASSERT_EQ(awaitGrants(second.environment).size(), 1u);
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(second.client.release({0}));
  const auto grants = awaitGrants(first.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
}

TEST_F(Requeue, PutsOneBetweenThoseWhoCameBeforeAndAfter) {
  for (Peer* peer : {&first, &second, &third}) peer->client.pend({0});
  // The first waiter is skipped while its thread blocks.
  first.environment.participant().block();
  handOver();
  ASSERT_EQ(holderOf(word()), second.slot());
  second.environment.participant().block();
  ASSERT_EQ(awaitGrants(third.environment).size(), 1u);
  second.environment.participant().unblock();
  first.environment.participant().unblock();
  Peer* current = &third;
  for (Peer* peer : {&first, &second}) {
    makeHandOverDue(holder.client, 0);
    EXPECT_TRUE(current->client.release({0}));
    ASSERT_EQ(awaitGrants(peer->environment).size(), 1u);
    current = peer;
  }
}

}  // namespace stripelock::test
