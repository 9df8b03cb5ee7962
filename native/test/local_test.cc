// Tests the core's view of acquisitions that wait in JavaScript: the flag in the word, their counts, and the place of
// their stand-in.

#include <vector>

#include <gtest/gtest.h>

#include "core/table/inspect.h"
#include "test/support.h"

namespace stripelock::test {

namespace {

std::uint32_t standIn(Client& client, std::uint32_t stripe, std::uint32_t arrival, double waited = 0) {
  const Request request{.stripes = &stripe,
                        .count = 1,
                        .taken = 0,
                        .mode = Mode::kExclusive,
                        .timeout = kForever,
                        .waited = waited,
                        .arrival = arrival};
  const AsyncWaits::Started started = client.environment().async().start(client.membership(), request);
  EXPECT_EQ(started.status, AsyncStart::kPending);
  return started.id;
}

std::vector<std::int32_t> threadsOf(Table& table) {
  std::vector<std::int32_t> threads;
  for (const StripeInfo& stripe : inspect(table)) {
    for (const StripeInfo::Waiting& waiting : stripe.waiters) threads.push_back(waiting.threadId);
  }
  return threads;
}

}  // namespace

TEST(Local, FlagKeepsTheFastPathFromReleasingAndEndsWithTheHold) {
  SharedMemory memory(1);
  Peer peer(memory);
  for (const Leave::How how : {Leave::How::kRelease, Leave::How::kRollBack}) {
    ASSERT_TRUE(peer.client.take(0));
    memory.word(0).fetch_or(kLocal);
    EXPECT_FALSE(peer.client.giveBack(0));
    EXPECT_TRUE(peer.client.membership().release(0, Mode::kExclusive, how));
    EXPECT_EQ(memory.word(0).load(), 0u);
  }
}

TEST(Local, TimeOfAStandInCountsForItsTurnThoughNobodyElseWaited) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer peer(memory);
  ASSERT_TRUE(holder.client.take(0));
  standIn(peer.client, 0, 0, 1000);
  EXPECT_LT(holder.client.table().fairIn(0), 0) << "it has waited for longer than kBargingPeriod";
}

TEST(Local, FlagEndsWithItsThread) {
  SharedMemory memory(1);
  Peer other(memory);
  {
    Peer ending(memory);
    ASSERT_TRUE(ending.client.take(0));
    memory.word(0).fetch_or(kLocal);
    other.client.pend({0});
    EXPECT_EQ(memory.word(0).load(), ending.slot() | kLocal | kQueued);
  }
  EXPECT_EQ(awaitGrants(other.environment).size(), 1u);
  EXPECT_EQ(memory.word(0).load(), other.slot() | kAbandoned);
  EXPECT_TRUE(other.client.release({0}));
}

TEST(Local, FlagDoesNotPassToWhomTheStripeIsHandedOver) {
  SharedMemory memory(1);
  Peer one(memory);
  Peer other(memory);
  ASSERT_TRUE(one.client.take(0));
  other.client.pend({0});
  memory.word(0).fetch_or(kLocal);
  makeHandOverDue(one.client, 0);
  EXPECT_TRUE(one.client.release({0}));
  EXPECT_EQ(memory.word(0).load(), other.slot());
  EXPECT_EQ(takeGrants(other.environment).size(), 1u);
  EXPECT_TRUE(other.client.release({0}));
}

TEST(Local, StandInComesBeforeItsThreadsOtherWaitersAndBehindThoseThatCameEarlier) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer early(memory);
  Peer crowd(memory);
  ASSERT_TRUE(holder.client.take(0));
  early.client.pend({0});
  crowd.client.pend({0}, {.mode = Mode::kShared});
  standIn(crowd.client, 0, 1);
  const std::vector<StripeInfo> stripes = inspect(holder.client.table());
  ASSERT_EQ(stripes.size(), 1u);
  ASSERT_EQ(stripes[0].waiters.size(), 3u);
  EXPECT_EQ(stripes[0].waiters[0].threadId, early.environment.threadId());
  EXPECT_EQ(stripes[0].waiters[1].mode, Mode::kExclusive);
  EXPECT_EQ(stripes[0].waiters[2].mode, Mode::kShared);
}

TEST(Local, StandInComesBeforeThoseThatCameLater) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer late(memory);
  Peer crowd(memory);
  ASSERT_TRUE(holder.client.take(0));
  late.client.pend({0});
  standIn(crowd.client, 0, 0);
  EXPECT_EQ(threadsOf(holder.client.table()),
            (std::vector{crowd.environment.threadId(), late.environment.threadId()}));
  // The acquisition was counted when it arrived.
  EXPECT_EQ(memory.cell(kContendedCell), 1);
}

TEST(Local, CountsAreAddedUpAndThoseOfTheDeadAreForgottenOrKept) {
  SharedMemory memory(2);
  // Declared before the peers, which read these counts when they are destroyed.
  std::vector<Word> ours(localIntsFor(2));
  Peer one(memory);
  one.client.membership().openLocals(ours.data());
  ours[1].store(3);
  ours[localWaitingIndex(2)].store(3);
  ours[localContendedIndex(2)].store(10);
  ASSERT_TRUE(one.client.take(1));
  std::vector<Word> theirs(localIntsFor(2));
  {
    Peer other(memory);
    other.client.membership().openLocals(theirs.data());
    theirs[1].store(1);
    theirs[localWaitingIndex(2)].store(1);
    theirs[localContendedIndex(2)].store(5);
    const LocalCounts counts = countLocals(one.client.table());
    EXPECT_EQ(counts.waiting, 4u);
    EXPECT_EQ(counts.contended, 15u);
    const std::vector<StripeInfo> stripes = inspect(one.client.table());
    ASSERT_EQ(stripes.size(), 1u);
    ASSERT_EQ(stripes[0].locals.size(), 2u);
    EXPECT_EQ(stripes[0].locals[0].count, 3u);
    EXPECT_EQ(stripes[0].locals[1].threadId, other.environment.threadId());
  }
  const LocalCounts counts = countLocals(one.client.table());
  EXPECT_EQ(counts.waiting, 3u);
  EXPECT_EQ(counts.contended, 10u);
  EXPECT_EQ(memory.cell(kContendedCell), 5);
  EXPECT_TRUE(one.client.release({1}));
}

TEST(Local, FairInSaysWhenTheHeadIsServedNext) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer other(memory);
  ASSERT_TRUE(holder.client.take(0));
  EXPECT_EQ(holder.client.table().fairIn(0), kBargingPeriod);
  other.client.pend({0});
  EXPECT_LE(holder.client.table().fairIn(0), kBargingPeriod);
  makeHandOverDue(holder.client, 0);
  EXPECT_LE(holder.client.table().fairIn(0), 0);
  EXPECT_TRUE(holder.client.release({0}));
}

}  // namespace stripelock::test
