// How permits are granted to waiters.

#include <atomic>
#include <cstring>
#include <memory>

#include "test/worlds.h"

namespace stripelock::test {

TEST_F(Permits, AreHandedOverToAnEventLoop) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(0));
  two.client.pend({0}, kPermit);
  putHandOverOff(one.client, 0);
  EXPECT_TRUE(one.release(0));
  EXPECT_EQ(word() & kHolderMask, 3u) << "it need not try";
  EXPECT_FALSE(late.takes(0));
  ASSERT_EQ(awaitGrants(two.environment).size(), 1u);
  EXPECT_TRUE(two.release(0));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(one.release(0));
}

TEST_F(Permits, GoToThoseBehindADesignatedWaiterButForItsOwn) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(0));
  Blocking first(two.client, {0}, kPermit);
  ASSERT_TRUE(awaitWaiters(one.client, 0, 1));
  late.client.pend({0}, kPermit);
  PermitPeer last(memory, 3);
  last.client.pend({0}, kPermit);
  putHandOverOff(one.client, 0);
  Barrier barrier("designated: before it tries");
  EXPECT_TRUE(one.release(0));
  ASSERT_TRUE(barrier.awaitArrival());
  EXPECT_EQ(word(), kShared + 2) << "free for it, or for whoever comes by";
  EXPECT_TRUE(one.client.releaseSlow(0, Mode::kShared));
  EXPECT_EQ(word(), kShared + 2);
  ASSERT_EQ(awaitGrants(late.environment).size(), 1u);
  EXPECT_EQ(waitersOf(one.client, 0), 2u);
  barrier.open();
  EXPECT_EQ(first.status(), Status::kGranted);
  EXPECT_EQ(word(), kShared | kQueued | 3u);
  EXPECT_TRUE(two.release(0));
  ASSERT_EQ(awaitGrants(last.environment).size(), 1u);
  for (PermitPeer* peer : {&one, &late, &last}) EXPECT_TRUE(peer->release(0));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, PassBlockedThreadsBehindADesignatedWaiterAndLeaveTheClockOfTheHead) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(0));
  PermitPeer blocked(memory, 3);
  blocked.client.pend({0}, kPermit);
  Blocking first(two.client, {0}, kPermit);
  ASSERT_TRUE(awaitWaiters(one.client, 0, 2));
  blocked.client.pend({0}, kPermit);
  late.client.pend({0}, kPermit);
  blocked.environment.participant().block();
  putHandOverOff(one.client, 0);
  const Nanoseconds fairAt = table().queueOf(0).fairAt;
  Barrier barrier("designated: before it tries");
  EXPECT_TRUE(one.release(0));
  ASSERT_TRUE(barrier.awaitArrival());
  EXPECT_TRUE(one.client.releaseSlow(0, Mode::kShared));
  ASSERT_EQ(awaitGrants(late.environment).size(), 1u);
  EXPECT_FALSE(blocked.async().hasReady());
  EXPECT_EQ(table().queueOf(0).fairAt, fairAt);
  barrier.open();
  EXPECT_EQ(first.status(), Status::kGranted);
  EXPECT_TRUE(two.release(0));
  EXPECT_TRUE(late.release(0));
  blocked.environment.participant().unblock();
  EXPECT_EQ(awaitGrants(blocked.environment).size(), 2u);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(blocked.release(0));
  EXPECT_TRUE(one.release(0));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, AreNotMissedByADesignatedWaiterThatIsOvertaken) {
  // Without slices, only a wake-up can end the wait.
  const NoSlices none;
  static Client* overtaking = nullptr;
  static std::atomic<int> tries{0};
  static std::atomic<int> looks{0};
  overtaking = &late.client;
  tries.store(0);
  looks.store(0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(0));
  Blocking waiting(two.client, {0}, kPermit);
  ASSERT_TRUE(awaitWaiters(one.client, 0, 1));
  putHandOverOff(one.client, 0);
  onSeam([](const char* point) {
    if (std::strcmp(point, "designated: before it tries") == 0 && tries.fetch_add(1) == 0) {
      EXPECT_TRUE(overtaking->take(0, Mode::kShared));
    }
    if (std::strcmp(point, "designated: before it looks again") == 0 && looks.fetch_add(1) == 0) {
      EXPECT_TRUE(overtaking->giveBack(0, Mode::kShared));
    }
  });
  EXPECT_TRUE(one.release(0));
  EXPECT_EQ(waiting.status(), Status::kGranted);
  onSeam(nullptr);
  EXPECT_EQ(looks.load(), 1);
  EXPECT_TRUE(two.release(0));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(one.release(0));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, AreGrantedTogetherWhenSeveralBecomeFreeAtOnce) {
  auto dying = std::make_unique<PermitPeer>(memory, 3);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(dying->takes(0));
  ASSERT_TRUE(one.takes(0));
  PermitPeer last(memory, 3);
  Blocking first(two.client, {0}, kPermit);
  ASSERT_TRUE(awaitWaiters(one.client, 0, 1));
  Blocking second(late.client, {0}, kPermit);
  ASSERT_TRUE(awaitWaiters(one.client, 0, 2));
  Blocking third(last.client, {0}, kPermit);
  ASSERT_TRUE(awaitWaiters(one.client, 0, 3));
  dying->environment.end();
  EXPECT_EQ(first.status(), Status::kGranted);
  EXPECT_EQ(second.status(), Status::kGranted);
  EXPECT_TRUE(first.join().abandoned);
  EXPECT_TRUE(second.join().abandoned);
  EXPECT_FALSE(third.decided());
  EXPECT_EQ(word(), kShared | kQueued | kAbandoned | kDeathReported | 3u) << "they ran out, and one waits";
  EXPECT_TRUE(one.release(0));
  EXPECT_EQ(third.status(), Status::kGranted);
  EXPECT_FALSE(third.join().abandoned) << "two were told, and one has released";
  for (PermitPeer* peer : {&two, &late, &last}) EXPECT_TRUE(peer->release(0));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, AreNotMissedByThoseBehindAWaiterThatGivesUp) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(0));
  const std::uint32_t first = two.client.pend({0}, kPermit);
  Blocking second(late.client, {0}, kPermit);
  ASSERT_TRUE(awaitWaiters(one.client, 0, 2));
  EXPECT_TRUE(two.async().cancel(first));
  EXPECT_TRUE(one.release(0));
  EXPECT_EQ(second.status(), Status::kGranted);
  EXPECT_TRUE(late.release(0));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(one.release(0));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, AreMarkedAsAwaitedIfAWaiterForSeveralStripesLacksThem) {
  for (const std::uint32_t stripe : {0u, 1u}) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(stripe));
  }
  two.client.pend({0, 1}, kPermit);
  EXPECT_EQ(word(1), kShared | 3u) << "nobody has come there yet";
  EXPECT_TRUE(one.release(0));
  EXPECT_EQ(word(0), kShared | 3u);
  EXPECT_EQ(word(1), kShared | kQueued | 3u);
  EXPECT_TRUE(one.release(1));
  ASSERT_EQ(awaitGrants(two.environment).size(), 1u);
  EXPECT_TRUE(two.client.release({0, 1}, Mode::kShared));
  for (int i = 0; i < 2; ++i) {
    for (const std::uint32_t stripe : {0u, 1u}) EXPECT_TRUE(one.release(stripe));
  }
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, AreNotMissedByAnEventLoopBehindAWaiterThatGivesUp) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(0));
  const std::uint32_t first = two.client.pend({0}, kPermit);
  late.client.pend({0}, kPermit);
  // All permits stay taken, so a later thread gets none.
  EXPECT_TRUE(two.async().cancel(first));
  EXPECT_EQ(word(), kShared | kQueued | 3u);
  EXPECT_EQ(waitersOf(one.client, 0), 1u);
  EXPECT_TRUE(one.release(0));
  ASSERT_EQ(awaitGrants(late.environment).size(), 1u);
  EXPECT_TRUE(late.release(0));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(one.release(0));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, GoToTheNextIfABusyThreadDoesNotCollectThem) {
  const UsualSlices slices;
  const Patience patience(1'000'000);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(0));
  // The event loop of `two` does not run.
  two.client.pend({0}, kPermit);
  Blocking next(late.client, {0}, kPermit);
  ASSERT_TRUE(awaitWaiters(one.client, 0, 2));
  EXPECT_TRUE(one.release(0));
  EXPECT_EQ(next.status(), Status::kGranted);
  EXPECT_EQ(word() & kHolderMask, 3u);
  EXPECT_TRUE(one.release(0));
  ASSERT_EQ(awaitGrants(two.environment).size(), 1u);
  EXPECT_TRUE(two.release(0));
  EXPECT_TRUE(one.release(0));
  EXPECT_TRUE(late.release(0));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, AreAllGivenBackByABlockedThreadThatWasGrantedThem) {
  const UsualSlices slices;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(one.takes(0));
  ASSERT_TRUE(late.takes(1));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(one.takes(1));
  for (int i = 0; i < 2; ++i) two.client.pend({0}, kPermit);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(one.release(0));
  // Both acquisitions were granted, but their thread blocks before it collects the grants. So other threads get the
  // permits.
  Blocking blocked(two.client, {1}, kPermit);
  ASSERT_TRUE(awaitWaiters(one.client, 1, 1));
  EXPECT_TRUE(eventually([&] { return (word() & kHolderMask) == 1; }));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(late.takes(0));
  EXPECT_TRUE(late.release(1));
  EXPECT_EQ(blocked.status(), Status::kGranted);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(late.release(0));
  std::size_t granted = 0;
  while (granted < 2) granted += awaitGrants(two.environment).size();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(two.release(0));
  EXPECT_TRUE(two.release(1));
  EXPECT_TRUE(one.release(0));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(one.release(1));
  EXPECT_TRUE(memory.isFree());
}

TEST_F(Permits, ComeBackFromADeadThreadAndTheNextHoldersAreToldUntilOneReleases) {
  auto dying = std::make_unique<PermitPeer>(memory, 3);
  ASSERT_TRUE(one.takes(0));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(dying->takes(0));
  dying->environment.end();
  EXPECT_EQ(memory.cell(kAbandonedCell), 1);
  EXPECT_EQ(word(), kShared + 1 + kAbandoned);
  // This holder got its permit before the death, and has not seen it. So its release clears nothing.
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
  EXPECT_EQ(word(), kShared + 1 + kAbandoned + kDeathReported);
  EXPECT_EQ(late.client.sync({0, 1}, kPermitAtOnce), Status::kTimedOut);
  EXPECT_EQ(word(), kShared + 1 + kAbandoned);
  // `two` saw the death, but the roll-back has cleared the flag for that. So this release does not clear kAbandoned.
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

}  // namespace stripelock::test
