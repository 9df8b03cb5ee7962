// Details of readers that must hold exactly: who enters, and how many shares a thread holds.

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

TEST_F(Exact, AReaderThatIsLetInAtTheLastMomentHoldsOneShare) {
  Peer reader(memory);
  const Passes passes("proceed: before the next shard", &holder.client);
  EXPECT_EQ(reader.client.sync({0}, {.mode = Mode::kShared, .timeout = kStuck}), Status::kGranted);
  EXPECT_EQ(reader.client.membership().sharesOf(0), 1u);
  EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  EXPECT_EQ(word(), 0u);
}

TEST_F(Exact, AReaderOfTwoStripesThatIsGrantedBothHoldsAShareOfEach) {
  const NoSlices slices;
  Peer reader(memory);
  Blocking blocking(reader.client, {0, 1}, {.mode = Mode::kShared, .timeout = kStuck});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  for (const std::uint32_t stripe : {0u, 1u}) EXPECT_EQ(reader.client.membership().sharesOf(stripe), 1u);
  EXPECT_TRUE(reader.client.release({0, 1}, Mode::kShared));
}

TEST_F(Exact, AReaderThatOvertakesAnEventLoopHoldsOneShare) {
  Peer chosen(memory);
  Peer reader(memory);
  chosen.client.pend({0});
  Barrier barrier("wait: before it times out");
  Blocking blocking(reader.client, {0}, {.mode = Mode::kShared, .timeout = 1});
  ASSERT_TRUE(barrier.awaitArrival());
  designate();
  ASSERT_TRUE(isDesignated(chosen));
  barrier.open();
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_EQ(reader.client.membership().sharesOf(0), 1u);
  EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  EXPECT_EQ(awaitGrants(chosen.environment).size(), 1u);
}

TEST_F(Exact, AReaderPassesAWriterWhoseThreadBlocks) {
  Peer writer(memory);
  Peer reader(memory);
  ASSERT_TRUE(holder.client.take(1, Mode::kShared));
  writer.client.pend({1});
  writer.environment.participant().block();
  EXPECT_EQ(reader.client.sync({1}, {.mode = Mode::kShared, .timeout = kStuck, .fast = false}),
            Status::kGranted);
  writer.environment.participant().unblock();
  EXPECT_EQ(holderOf(word(1)), 2u);
}

TEST_F(Exact, AReaderMayEnterAgainPastAWriterOfItsOwnThread) {
  Peer peer(memory);
  ASSERT_TRUE(peer.client.take(1, Mode::kShared));
  peer.client.pend({1});
  EXPECT_EQ(peer.client.sync({1}, {.mode = Mode::kShared, .timeout = kStuck}), Status::kGranted);
  EXPECT_EQ(peer.client.membership().sharesOf(1), 2u);
}

TEST_F(Exact, AReaderOfTheReleasingThreadIsNotGrantedPastAWriter) {
  Peer remote(memory);
  remote.client.pend({0});
  holder.client.pend({0}, {.mode = Mode::kShared});
  designate();
  EXPECT_EQ(word(), 0u);
  EXPECT_TRUE(isDesignated(remote));
}

}  // namespace stripelock::test
