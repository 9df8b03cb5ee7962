// Permits: up to `limit` holders of a stripe at once.

#include <memory>
#include <vector>

#include "test/permits.h"

namespace stripelock::test {

TEST_F(Permits, AdmitAsManyHoldersAsTheLimitAndNoMore) {
  EXPECT_TRUE(one.takes(0));
  EXPECT_TRUE(two.takes(0, kPermitOfTheCore));
  EXPECT_TRUE(one.takes(0));
  EXPECT_EQ(word(), kShared + 3);
  EXPECT_FALSE(late.takes(0));
  EXPECT_FALSE(late.takes(0, kPermitOfTheCore));
  EXPECT_EQ(late.client.acquire({0}, kPermitOfTheCore).status, AsyncStart::kTimedOut);
  EXPECT_EQ(word(), kShared + 3);
  EXPECT_TRUE(late.takes(1));
  EXPECT_TRUE(one.release(0));
  EXPECT_TRUE(late.takes(0, kPermitOfTheCore));
  EXPECT_FALSE(one.takes(0));
  EXPECT_TRUE(one.release(0));
  EXPECT_FALSE(one.release(0)) << "it has given back both";
  EXPECT_TRUE(two.release(0));
  EXPECT_TRUE(late.release(0));
  EXPECT_TRUE(late.release(1));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, OfADeadThreadComeBackAndTheNextHoldersAreToldUntilOneReleases) {
  auto dying = std::make_unique<PermitPeer>(memory, 3);
  ASSERT_TRUE(one.takes(0));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(dying->takes(0));
  dying->environment.end();
  EXPECT_EQ(memory.cell(kAbandonedCell), 1);
  EXPECT_EQ(word(), kShared + 1 + kAbandoned);
  // It came before the death, and has not been told. So its release says nothing.
  EXPECT_TRUE(one.release(0));
  EXPECT_EQ(word(), kAbandoned);
  EXPECT_TRUE(two.isTold(0));
  EXPECT_TRUE(late.isTold(0));
  EXPECT_TRUE(two.release(0));
  EXPECT_FALSE(two.isTold(0));
  EXPECT_TRUE(late.release(0));
  EXPECT_TRUE(two.release(0));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, TellOfADeathAgainIfWhoWasToldIsRolledBackOrDies) {
  auto dying = std::make_unique<PermitPeer>(memory, 3);
  ASSERT_TRUE(dying->takes(0));
  dying->environment.end();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(1));
  EXPECT_EQ(two.client.sync({0, 1}, kPermitAtOnce), Status::kTimedOut);
  EXPECT_EQ(word(), kAbandoned);
  auto second = std::make_unique<PermitPeer>(memory, 3);
  EXPECT_TRUE(second->isTold(0));
  second->environment.end();
  EXPECT_EQ(word(), kAbandoned);
  EXPECT_TRUE(late.isTold(0));
  EXPECT_TRUE(late.release(0));
  EXPECT_EQ(word(), 0u);
}

TEST_F(Permits, TellOfADeathUntilTheNextReleaseAfterARollBackAlthoughOthersWereTold) {
  auto dying = std::make_unique<PermitPeer>(memory, 3);
  ASSERT_TRUE(dying->takes(0));
  dying->environment.end();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(1));
  EXPECT_TRUE(two.isTold(0));
  EXPECT_EQ(word(), kShared + 1 + kAbandoned + kTold);
  EXPECT_EQ(late.client.sync({0, 1}, kPermitAtOnce), Status::kTimedOut);
  EXPECT_EQ(word(), kShared + 1 + kAbandoned);
  // The word does not say that it was told.
  EXPECT_TRUE(two.release(0));
  EXPECT_EQ(word(), kAbandoned);
  EXPECT_TRUE(late.isTold(0));
  EXPECT_TRUE(two.isTold(0));
  EXPECT_TRUE(late.release(0));
  EXPECT_EQ(word(), kShared + 1);
  EXPECT_FALSE(late.isTold(0));
  EXPECT_TRUE(late.release(0));
  EXPECT_TRUE(two.release(0));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(one.release(1));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, OfSeveralStripesAreTakenAllOrNone) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(2));
  ASSERT_TRUE(one.takes(0));
  EXPECT_EQ(two.client.sync({0, 1, 2}, kPermitAtOnce), Status::kTimedOut);
  EXPECT_EQ(word(0), kShared + 1);
  EXPECT_EQ(word(1), 0u);
  const std::uint32_t id = two.client.pend({0, 1, 2}, kPermit);
  EXPECT_EQ(word(0), kShared + 2);
  EXPECT_TRUE(two.async().cancel(id));
  EXPECT_EQ(word(0), kShared + 1);
  EXPECT_EQ(word(1), 0u);
  Blocking all(two.client, {0, 1, 2}, kPermit);
  ASSERT_TRUE(awaitWaiters(one.client, 2, 1));
  EXPECT_TRUE(one.release(2));
  EXPECT_EQ(all.status(), Status::kGranted);
  EXPECT_TRUE(two.client.release({0, 1, 2}, Mode::kShared));
  EXPECT_TRUE(one.release(0));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(one.release(2));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, AreShownOnceEachInInspectAndOncePerThreadInErrors) {
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(one.takes(0));
  ASSERT_TRUE(two.takes(0));
  const auto shown = inspect(table());
  ASSERT_EQ(shown.size(), 1u);
  const std::int32_t first = one.environment.threadId();
  const std::int32_t second = two.environment.threadId();
  EXPECT_EQ(shown[0].holders, (std::vector<std::int32_t>{first, first, second}));
  EXPECT_EQ(holdersOf(table(), 0), (std::vector<std::int32_t>{first, second}));
  EXPECT_EQ(countHeld(table()), 1u);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(one.release(0));
  EXPECT_TRUE(two.release(0));
}

TEST_F(Permits, OfOneTableAreAsManyForAllThreads) {
  Environment other;
  EXPECT_EQ(Registry::instance().open(other.participant(), memory.data(), memory.stripes(), false, 2),
            nullptr);
  EXPECT_EQ(Registry::instance().open(other.participant(), memory.data(), memory.stripes()), nullptr);
}

}  // namespace stripelock::test
