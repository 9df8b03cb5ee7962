// Web locks when a thread that uses them ends.

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "test/web_lock_support.h"

namespace stripelock::test {

namespace {

using Lines = std::vector<std::string>;

class WebLockEnd : public testing::Test {
 protected:
  Lines lines() { return describe(manager, one); }

  const std::uint64_t manager = newManager();
  WebLockPeer one{manager};
  WebLockPeer two{manager};
  WebLockPeer three{manager};
};

}  // namespace

TEST_F(WebLockEnd, FreesWhatTheThreadHeldAndDropsWhatItAskedFor) {
  two.hold(u"a");
  two.hold(u"b");
  one.hold(u"c");
  two.pend(u"a");
  two.pend(u"c");
  const std::uint32_t waiting = three.pend(u"a");
  three.pend(u"c");
  two.end();
  EXPECT_EQ(lines(), (Lines{"a: 3X", "c: 1X | 3X"}));
  const std::vector<WebLockClient::News> news = three.awaitNews();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].ticket, waiting);
  EXPECT_TRUE(news[0].granted);
}

TEST_F(WebLockEnd, PassesOnWhatTheThreadWasGrantedAndDidNotTake) {
  const std::uint32_t held = one.hold(u"a");
  two.pend(u"a");
  three.pend(u"a", Mode::kShared);
  one.pend(u"a", Mode::kShared);
  one.release(held);
  EXPECT_EQ(lines(), Lines{"a: 2X | 3S 1S"});
  two.end();
  EXPECT_EQ(lines(), Lines{"a: 3S 1S"});
  EXPECT_TRUE(three.awaitNews()[0].granted);
  EXPECT_TRUE(one.awaitNews()[0].granted);
}

TEST_F(WebLockEnd, LeavesStolenLocksToTheThief) {
  two.hold(u"a");
  const std::uint32_t told = two.hold(u"b");
  one.steal(u"b");
  EXPECT_EQ(two.awaitNews()[0].ticket, told);
  one.steal(u"a");
  two.end();
  EXPECT_EQ(lines(), (Lines{"a: 1X", "b: 1X"}));
}

TEST_F(WebLockEnd, FreesWhatAThiefStole) {
  one.hold(u"a");
  three.pend(u"a");
  two.steal(u"a");
  two.end();
  EXPECT_EQ(lines(), Lines{"a: 3X"});
}

TEST_F(WebLockEnd, LeavesNothingOfAQueueOfOneThread) {
  for (int i = 0; i < 1000; ++i) two.request(u"a", sharedIf(i % 3 == 0));
  two.end();
  EXPECT_EQ(lines(), Lines{});
}

// Another thread has pushed news to the ending thread, and still uses its client.
class WebLockEndMeets : public WebLockEnd, public testing::WithParamInterface<const char*> {};

TEST_P(WebLockEndMeets, AThiefInTheMiddleOfItsTheft) {
  two.hold(u"a");
  Barrier barrier(GetParam());
  std::thread thief([&] { three.steal(u"a"); });
  ASSERT_TRUE(barrier.awaitArrival());
  std::thread victim([&] {
    two.take();
    two.end();
  });
  barrier.open();
  thief.join();
  victim.join();
  EXPECT_EQ(lines(), Lines{"a: 3X"});
}

INSTANTIATE_TEST_SUITE_P(Points, WebLockEndMeets,
                         testing::Values("web lock steal: before the ready list",
                                         "web lock steal: after the ready list",
                                         "web lock request: before the shard"));

// A thread that steals a lock pushes the news first, and then accesses the victim once more to wake it.
TEST_F(WebLockEnd, WaitsForAThiefThatHasPushedItsNews) {
  two.hold(u"a");
  Barrier barrier("web lock steal: after the ready list");
  std::thread thief([&] { three.steal(u"a"); });
  ASSERT_TRUE(barrier.awaitArrival());
  std::atomic<bool> ended{false};
  std::thread victim([&] {
    // The victim no longer has a request in that shard.
    EXPECT_EQ(two.take().size(), 1u);
    two.end();
    ended.store(true);
  });
  // This is far longer than the end of a thread usually takes.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ended.load());
  barrier.open();
  thief.join();
  victim.join();
  EXPECT_EQ(lines(), Lines{"a: 3X"});
}

TEST_F(WebLockEnd, MeetsARelease) {
  const std::uint32_t held = one.hold(u"a");
  two.pend(u"a");
  three.pend(u"a");
  Barrier barrier("web lock grant: before the ready list");
  std::thread releaser([&] { one.release(held); });
  ASSERT_TRUE(barrier.awaitArrival());
  std::thread dying([&] { two.end(); });
  barrier.open();
  releaser.join();
  dying.join();
  EXPECT_EQ(lines(), Lines{"a: 3X"});
  EXPECT_TRUE(three.awaitNews()[0].granted);
}

TEST_F(WebLockEnd, MeetsAReleaseOfWhatItWaitsFor) {
  const std::uint32_t held = one.hold(u"a");
  two.pend(u"a");
  three.pend(u"a");
  Barrier barrier("web lock end: before the shard");
  std::thread dying([&] { two.end(); });
  ASSERT_TRUE(barrier.awaitArrival());
  one.release(held);
  EXPECT_EQ(lines(), Lines{"a: 2X | 3X"});
  barrier.open();
  dying.join();
  EXPECT_EQ(lines(), Lines{"a: 3X"});
}

}  // namespace stripelock::test
