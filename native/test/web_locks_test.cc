// Which requests get a web lock, and in which order.

#include <atomic>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "test/web_lock_support.h"

namespace stripelock::test {

namespace {

using Lines = std::vector<std::string>;

class WebLocksTest : public testing::Test {
 protected:
  Lines lines() { return describe(manager, one); }

  const std::uint64_t manager = newManager();
  WebLockPeer one{manager};
  WebLockPeer two{manager};
  WebLockPeer three{manager};
};

}  // namespace

TEST_F(WebLocksTest, ServesEachNameInTheOrderOfArrival) {
  const std::uint32_t first = one.hold(u"a");
  const std::uint32_t second = two.pend(u"a");
  one.pend(u"a");
  three.pend(u"a");
  three.hold(u"b");
  EXPECT_EQ(lines(), (Lines{"a: 1X | 2X 1X 3X", "b: 3X"}));
  one.release(first);
  EXPECT_EQ(lines(), (Lines{"a: 2X | 1X 3X", "b: 3X"}));
  const std::vector<WebLockClient::News> news = two.awaitNews();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].ticket, second);
  EXPECT_TRUE(news[0].granted);
  EXPECT_FALSE(news[0].stolen);
  two.release(second);
  EXPECT_EQ(lines(), (Lines{"a: 1X | 3X", "b: 3X"}));
}

TEST_F(WebLocksTest, LetsReadersInOnlyUpToTheNextWriter) {
  const std::uint32_t writer = one.hold(u"a");
  const std::uint32_t reader = two.pend(u"a", Mode::kShared);
  three.pend(u"a", Mode::kShared);
  three.pend(u"a");
  two.pend(u"a", Mode::kShared);
  one.release(writer);
  EXPECT_EQ(lines(), Lines{"a: 2S 3S | 3X 2S"});
  two.release(reader);
  EXPECT_EQ(lines(), Lines{"a: 3S | 3X 2S"}) << "a writer waits for the last reader";
}

TEST_F(WebLocksTest, LetsInWhoWaitedBehindACancelledRequest) {
  one.hold(u"a", Mode::kShared);
  const std::uint32_t writer = two.pend(u"a");
  three.pend(u"a", Mode::kShared);
  one.pend(u"a", Mode::kShared);
  one.pend(u"a");
  EXPECT_TRUE(two.cancel(writer));
  EXPECT_EQ(lines(), Lines{"a: 1S 3S 1S | 1X"});
  EXPECT_TRUE(three.awaitNews()[0].granted);
}

TEST_F(WebLocksTest, CancelsInTheMiddleOfAQueue) {
  one.hold(u"a");
  two.pend(u"a");
  const std::uint32_t middle = one.pend(u"a");
  const std::uint32_t last = three.pend(u"a");
  EXPECT_TRUE(one.cancel(middle));
  EXPECT_EQ(lines(), Lines{"a: 1X | 2X 3X"});
  EXPECT_EQ(one.client().waiting(), 0u) << "its event loop may end";
  EXPECT_TRUE(three.cancel(last));
  two.pend(u"a", Mode::kShared);
  EXPECT_EQ(lines(), Lines{"a: 1X | 2X 2S"});
}

TEST_F(WebLocksTest, RemembersANameOnlyWhileItIsInUse) {
  const std::size_t before = WebLocks::instance().size();
  const std::string longest(100, 'x');
  const std::u16string longName(longest.begin(), longest.end());
  for (int i = 0; i < 3; ++i) {
    const std::uint32_t held = one.hold(u"a");
    const std::uint32_t other = one.hold(longName);
    const std::uint32_t waiting = two.pend(u"a");
    EXPECT_EQ(WebLocks::instance().size(), before + 2);
    one.release(held);
    one.release(other);
    EXPECT_EQ(WebLocks::instance().size(), before + 1);
    EXPECT_FALSE(two.cancel(waiting));
    two.release(waiting);
    EXPECT_EQ(WebLocks::instance().size(), before);
  }
}

TEST_F(WebLocksTest, GivesARecordThatIsUsedAgainItsNewName) {
  // Each shard gets several names, short and long ones.
  for (int i = 0; i < 300; ++i) {
    const std::string name = std::to_string(i) + std::string(i % 3 == 0 ? 50 : 5, 'x');
    const std::uint32_t held = one.hold(std::u16string(name.begin(), name.end()));
    EXPECT_EQ(lines(), Lines{name + ": 1X"});
    one.release(held);
  }
}

// A query shows all names at one moment. Otherwise a request that moves from name to name could be seen twice, or
// nowhere. No thread waits for the whole query.
TEST_F(WebLocksTest, AreSeenAtOneMomentWhileTheyChange) {
  const std::uint32_t held = one.hold(u"a");
  one.hold(u"b");
  const std::uint32_t waiting = two.pend(u"b");
  const Lines before = lines();
  Lines seen;
  Barrier barrier("web lock query: at a shard");
  std::thread looking([&] { seen = lines(); });
  ASSERT_TRUE(barrier.awaitArrival());
  std::atomic<bool> changed{false};
  std::thread changing([&] {
    // Adds names to all shards.
    for (int i = 0; i < 1000; ++i) {
      const std::string name = "c" + std::to_string(i);
      two.hold(std::u16string(name.begin(), name.end()));
    }
    two.cancel(waiting);
    one.release(held);
    one.steal(u"b");
    changed.store(true);
  });
  EXPECT_TRUE(eventually([&] { return changed.load(); })) << "a query holds others up";
  barrier.open();
  looking.join();
  changing.join();
  EXPECT_EQ(seen, before);
  EXPECT_EQ(lines().size(), 1001u);
}

TEST(WebLockManagers, AreKnownOnceTheyAreIssued) {
  WebLocks& locks = WebLocks::instance();
  EXPECT_TRUE(locks.isManager(WebLocks::kDefaultManager));
  const std::uint64_t issued = locks.issueManager();
  EXPECT_NE(issued, WebLocks::kDefaultManager);
  EXPECT_TRUE(locks.isManager(issued));
  EXPECT_FALSE(locks.isManager(issued + 1));
}

TEST(WebLockNames, DistinguishEveryStringOfUnitsAndGiveItBack) {
  std::u16string chosen[] = {
      u"",
      std::u16string(1, u'\0'),
      std::u16string(2, u'\0'),
      u"a",
      u"ab",
      u"\u00ff",
      u"\u0100",
      u"\u00ffa",
      u"\u6161",
      std::u16string{0xd800},
      std::u16string{0xdc00},
      std::u16string{0xfffd},
      std::u16string{0xd800, u'a'},
      u"\U0001f512",
      std::u16string(127, u'x'),
      std::u16string(128, u'x'),
      std::u16string(129, u'x'),
      // Lengths just below and above the limit for names without an allocation.
      std::u16string(128, u'\u0101'),
      std::u16string(129, u'\u0101'),
      std::u16string(132, u'\u0101'),
      std::u16string(133, u'\u0101'),
      std::u16string(1000, u'x'),
      std::u16string(1000, u'\u0101'),
      std::u16string(999, u'x') + u'\u0100',
  };
  for (const std::u16string& name : chosen) {
    const WebLockName key(7, name);
    EXPECT_EQ(WebLockName::nameOf(key.view()), name);
    EXPECT_EQ(WebLockName::managerOf(key.view()), 7u);
    for (const std::u16string& other : chosen) {
      EXPECT_EQ(WebLockName(7, other).view().text == key.view().text, other == name);
      EXPECT_NE(WebLockName(8, other).view().text, key.view().text);
    }
  }
}

TEST(WebLockNames, HoldTheHighestManager) {
  const WebLockName key(WebLockName::kMostManagers - 1, u"\u0100");
  EXPECT_EQ(WebLockName::managerOf(key.view()), WebLockName::kMostManagers - 1);
  EXPECT_EQ(WebLockName::nameOf(key.view()), u"\u0100");
}

}  // namespace stripelock::test
