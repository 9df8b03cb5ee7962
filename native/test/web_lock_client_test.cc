// A thread's news about its requests for web locks: grants, steals, and requests that end before they are reported.

#include <thread>

#include <gtest/gtest.h>

#include "test/web_lock_support.h"

namespace stripelock::test {

namespace {

using Lines = std::vector<std::string>;

class WebLockNews : public testing::Test {
 protected:
  Lines lines() { return describe(manager, one); }
  // Expects exactly one piece of news.
  static void expectNews(const std::vector<WebLockClient::News>& news, std::uint32_t ticket, bool granted,
                         bool stolen) {
    ASSERT_EQ(news.size(), 1u);
    EXPECT_EQ(news[0].ticket, ticket);
    EXPECT_EQ(news[0].granted, granted);
    EXPECT_EQ(news[0].stolen, stolen);
  }

  const std::uint64_t manager = newManager();
  WebLockPeer one{manager};
  WebLockPeer two{manager};
};

}  // namespace

TEST_F(WebLockNews, DropsAGrantThatIsCancelled) {
  const std::uint32_t held = one.hold(u"a");
  const std::uint32_t waiting = two.pend(u"a");
  one.release(held);
  EXPECT_EQ(two.client().waiting(), 1u);
  EXPECT_FALSE(two.cancel(waiting)) << "it was granted already";
  EXPECT_EQ(two.client().waiting(), 0u);
  EXPECT_TRUE(two.take().empty());
  EXPECT_EQ(lines(), Lines{"a: 2X"}) << "it is held until it is released";
  EXPECT_TRUE(two.release(waiting));
  EXPECT_EQ(lines(), Lines{});
}

TEST_F(WebLockNews, DropsAGrantThatIsReleased) {
  const std::uint32_t held = one.hold(u"a");
  const std::uint32_t waiting = two.pend(u"a");
  one.release(held);
  EXPECT_TRUE(two.release(waiting));
  EXPECT_EQ(two.client().waiting(), 0u);
  EXPECT_FALSE(two.client().hasReady());
  EXPECT_TRUE(two.take().empty());
  EXPECT_FALSE(two.release(waiting)) << "there is none any more";
}

TEST_F(WebLockNews, TellsAHolderThatItsLockWasStolen) {
  const std::uint32_t held = one.hold(u"a");
  two.steal(u"a");
  EXPECT_EQ(lines(), Lines{"a: 2X"});
  expectNews(one.awaitNews(), held, false, true);
  EXPECT_FALSE(one.release(held)) << "the ticket ended with the news";
  EXPECT_EQ(lines(), Lines{"a: 2X"});
}

TEST_F(WebLockNews, TellsOfAGrantAndItsTheftAtOnce) {
  const std::uint32_t held = one.hold(u"a");
  const std::uint32_t waiting = one.pend(u"a");
  EXPECT_TRUE(one.release(held));
  two.steal(u"a");
  expectNews(one.awaitNews(), waiting, true, true);
  EXPECT_EQ(one.client().waiting(), 0u);
}

TEST_F(WebLockNews, KeepsATheftAfterItsGrantWasCancelled) {
  const std::uint32_t held = one.hold(u"a");
  const std::uint32_t waiting = one.pend(u"a");
  one.release(held);
  two.steal(u"a");
  EXPECT_FALSE(one.cancel(waiting));
  EXPECT_EQ(one.client().waiting(), 0u);
  expectNews(one.take(), waiting, false, true);
}

TEST_F(WebLockNews, DropsATheftOnceTheHolderReleases) {
  const std::uint32_t held = one.hold(u"a");
  two.steal(u"a");
  EXPECT_FALSE(one.release(held)) << "it was stolen";
  EXPECT_TRUE(one.take().empty());
  EXPECT_FALSE(one.client().hasReady());
  EXPECT_EQ(lines(), Lines{"a: 2X"}) << "a late release touches nobody's hold";
}

TEST_F(WebLockNews, LeavesALaterHoldOfTheNameAloneAfterATheft) {
  const std::uint32_t held = one.hold(u"a");
  const std::uint32_t stolen = two.steal(u"a");
  two.release(stolen);
  EXPECT_EQ(lines(), Lines{});
  WebLockPeer three(manager);
  three.hold(u"a");
  one.release(held);
  EXPECT_EQ(lines(), Lines{"a: 3X"});
}

TEST_F(WebLockNews, GoesToAllReadersWhoseLockIsStolen) {
  const std::uint32_t first = one.hold(u"a", Mode::kShared);
  const std::uint32_t second = one.hold(u"a", Mode::kShared);
  const std::uint32_t third = two.hold(u"a", Mode::kShared);
  const std::uint32_t queued = two.pend(u"a");
  const std::uint32_t stolen = one.steal(u"a");
  EXPECT_EQ(lines(), Lines{"a: 1X | 2X"}) << "those that wait are passed";
  const std::vector<WebLockClient::News> own = one.take();
  ASSERT_EQ(own.size(), 2u);
  EXPECT_EQ(own[0].ticket, first);
  EXPECT_EQ(own[1].ticket, second);
  expectNews(two.awaitNews(), third, false, true);
  one.release(stolen);
  expectNews(two.awaitNews(), queued, true, false);
}

TEST_F(WebLockNews, WakesNoThreadForWhatItDidItself) {
  const std::uint32_t held = one.hold(u"a");
  const std::uint32_t waiting = one.pend(u"a");
  one.release(held);
  EXPECT_TRUE(one.client().hasReady());
  one.steal(u"a");
  EXPECT_EQ(one.environment().wakes(), 0);
  expectNews(one.take(), waiting, true, true);
  EXPECT_FALSE(one.client().hasReady());
}

TEST_F(WebLockNews, CostsOneWakeForManyGrants) {
  const std::uint32_t held = one.hold(u"a");
  for (int i = 0; i < 100; ++i) two.pend(u"a", Mode::kShared);
  EXPECT_EQ(two.client().waiting(), 100u);
  one.release(held);
  EXPECT_TRUE(two.environment().awaitWake(kStuck));
  EXPECT_EQ(two.take().size(), 100u);
  EXPECT_EQ(two.environment().wakes(), 1);
  EXPECT_EQ(two.client().waiting(), 0u);
}

TEST_F(WebLockNews, ComesInTheOrderOfTheQueue) {
  const std::uint32_t held = one.hold(u"a");
  std::vector<std::uint32_t> waiting;
  for (int i = 0; i < 10; ++i) waiting.push_back(two.pend(u"a", Mode::kShared));
  two.cancel(waiting[4]);
  waiting.erase(waiting.begin() + 4);
  one.release(held);
  std::vector<std::uint32_t> told;
  for (const WebLockClient::News& news : two.awaitNews()) told.push_back(news.ticket);
  EXPECT_EQ(told, waiting);
}

TEST_F(WebLockNews, IsNotHandedOutForUnknownTickets) {
  EXPECT_FALSE(one.cancel(0));
  EXPECT_FALSE(one.release(0));
  EXPECT_FALSE(one.release(0xffffffff));
  const std::uint32_t held = one.hold(u"a");
  EXPECT_FALSE(one.cancel(held)) << "it is not pending";
  EXPECT_EQ(lines(), Lines{"a: 1X"});
  EXPECT_TRUE(one.release(held));
}

// The lock is stolen between a late cancel and its check of the ready list.
TEST_F(WebLockNews, KeepsATheftInTheMiddleOfALateCancel) {
  const std::uint32_t held = one.hold(u"a");
  const std::uint32_t waiting = two.pend(u"a");
  one.release(held);
  Barrier barrier("web lock cancel: before the ready list");
  std::thread thief([&] {
    ASSERT_TRUE(barrier.awaitArrival());
    one.steal(u"a");
    barrier.open();
  });
  EXPECT_FALSE(two.cancel(waiting));
  thief.join();
  expectNews(two.take(), waiting, false, true);
}

}  // namespace stripelock::test
