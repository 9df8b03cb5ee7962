#include "core/table/key_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

KeyView view(const std::string& key) { return KeyView(key); }

std::string name(std::size_t number) {
  // Some keys are too long to be stored in the entry.
  return (number % 5 == 0 ? std::string(100, 'k') : std::string("k")) + std::to_string(number);
}

struct Names {
  explicit Names(std::uint32_t stripes) : memory(stripes), table(memory.data(), stripes, true) {}
  KeyTable& keys() { return *table.keys(); }
  std::uint32_t pin(const std::string& key) { return keys().pin(view(key)).stripe; }
  // Leaves the word as a dead holder does.
  void abandon(std::uint32_t stripe) { memory.word(stripe).store(kAbandoned); }

  SharedMemory memory;
  Table table;
};

}  // namespace

TEST(KeyTable, GivesEachKeyAStripeOfItsOwn) {
  Names of(1000);
  std::set<std::uint32_t> stripes;
  for (std::size_t i = 0; i < 1000; ++i) EXPECT_TRUE(stripes.insert(of.pin(name(i))).second);
  EXPECT_EQ(of.keys().size(), 1000u);
  EXPECT_EQ(*stripes.rbegin(), 999u);
}

TEST(KeyTable, GivesAKeyTheSameStripeWhileItIsPinned) {
  Names of(10);
  const std::uint32_t stripe = of.pin("key");
  EXPECT_EQ(of.pin("key"), stripe);
  of.keys().unpin(stripe);
  EXPECT_NE(of.pin("other"), stripe);
  EXPECT_EQ(of.pin("key"), stripe);
}

TEST(KeyTable, GivesTheStripeOfAKeyThatNobodyPinsToAnother) {
  Names of(1);
  const std::uint32_t stripe = of.pin("key");
  EXPECT_EQ(of.pin("other"), KeyTable::kNone);
  of.keys().unpin(stripe);
  EXPECT_EQ(of.keys().size(), 0u);
  EXPECT_EQ(of.pin("other"), stripe);
  EXPECT_EQ(of.pin("key"), KeyTable::kNone);
}

TEST(KeyTable, RefusesAKeyOnlyIfNoStripeOfAnyShardIsFree) {
  Names of(500);
  std::map<std::size_t, std::uint32_t> pinned;
  for (std::size_t i = 0; i < 500; ++i) pinned[i] = of.pin(name(i));
  EXPECT_EQ(of.pin("another"), KeyTable::kNone);
  // Each round frees one stripe of any shard, and pins a new key of any shard.
  for (std::size_t i = 0; i < 500; ++i) {
    of.keys().unpin(pinned[i]);
    ASSERT_NE(of.pin(name(1000 + i)), KeyTable::kNone) << i;
    ASSERT_EQ(of.pin("another"), KeyTable::kNone) << i;
  }
}

TEST(KeyTable, SaysThatItIsCrowdedWhileMoreThanHalfOfItsStripesHaveKeys) {
  Names of(12800);
  std::vector<std::uint32_t> pinned;
  const auto pinUpTo = [&](std::size_t count) {
    std::size_t crowded = 0;
    for (std::size_t i = pinned.size(); i < count; ++i) {
      const KeyTable::Pinned got = of.keys().pin(view(name(i)));
      pinned.push_back(got.stripe);
      if (got.crowded) ++crowded;
    }
    return crowded;
  };
  EXPECT_EQ(pinUpTo(6400), 0u);
  // pin() estimates from the key's shard. If half of the stripes have keys, each of the 64 shards has about 100.
  EXPECT_GT(pinUpTo(8000), 800u);
  EXPECT_GT(pinUpTo(12800), 4700u);
  for (const std::uint32_t stripe : pinned) of.keys().unpin(stripe);
  pinned.clear();
  EXPECT_LT(pinUpTo(4000), 40u);
}

TEST(KeyTable, KeepsTheStripeOfAnAbandonedKeyThatNobodyPins) {
  Names of(100);
  const std::uint32_t stripe = of.pin("key");
  of.abandon(stripe);
  of.keys().unpin(stripe);
  EXPECT_EQ(of.keys().orphans(), 1u);
  EXPECT_NE(of.pin("other"), stripe);
  EXPECT_EQ(of.pin("key"), stripe);
  EXPECT_EQ(of.keys().orphans(), 0u);
  EXPECT_EQ(of.memory.word(stripe).load(), kAbandoned);
}

TEST(KeyTable, ForgetsTheOldestAbandonedKeysBeyondABound) {
  Names of(100);
  ASSERT_EQ(of.keys().mostOrphans(), 25u);
  std::vector<std::uint32_t> stripes;
  for (std::size_t i = 0; i < 40; ++i) {
    stripes.push_back(of.pin(name(i)));
    of.abandon(stripes.back());
    of.keys().unpin(stripes.back());
    EXPECT_LE(of.keys().orphans(), 25u);
  }
  EXPECT_EQ(of.keys().size(), 25u);
  // The youngest orphans remain.
  for (std::size_t i = 15; i < 40; ++i) EXPECT_EQ(of.pin(name(i)), stripes[i]);
  EXPECT_EQ(of.keys().orphans(), 0u);
  int abandoned = 0;
  for (std::uint32_t stripe = 0; stripe < 100; ++stripe)
    abandoned += of.memory.word(stripe).load() != 0 ? 1 : 0;
  EXPECT_EQ(abandoned, 25);
}

TEST(KeyTable, ForgetsTheOldestAbandonedKeysAlsoOfThoseGivenUp) {
  Names of(100);
  std::uint32_t idle = of.pin(name(0));
  for (std::size_t i = 1; i <= 60; ++i) {
    of.abandon(idle);
    idle = of.keys().pin(view(name(i)), idle).stripe;
    EXPECT_EQ(of.keys().orphans(), std::min<std::size_t>(i, 25));
  }
  EXPECT_EQ(of.keys().size(), 26u);
}

TEST(KeyTable, KeepsAQuarterOfItsKeysAbandonedButAtLeastFourAndAtMostAThousand) {
  for (const auto& [stripes, most] :
       {std::pair{1u, 4u}, {8u, 4u}, {400u, 100u}, {4096u, 1024u}, {65'536u, 1024u}})
    EXPECT_EQ(Names(stripes).keys().mostOrphans(), most) << stripes;
}

TEST(KeyTable, ForgetsAbandonedKeysRatherThanRefuseOne) {
  Names of(8);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::uint32_t stripe = of.pin(name(i));
    of.abandon(stripe);
    of.keys().unpin(stripe);
  }
  std::set<std::uint32_t> stripes;
  for (std::size_t i = 100; i < 108; ++i) {
    const std::uint32_t stripe = of.pin(name(i));
    ASSERT_NE(stripe, KeyTable::kNone);
    EXPECT_TRUE(stripes.insert(stripe).second);
    EXPECT_EQ(of.memory.word(stripe).load(), 0u);
  }
  EXPECT_EQ(of.pin("another"), KeyTable::kNone);
}

TEST(KeyTable, ForgetsNoAbandonedKeyWhileAnotherShardHasAFreeStripe) {
  Names of(8);
  std::vector<std::uint32_t> stripes;
  for (std::size_t i = 0; i < 8; ++i) stripes.push_back(of.pin(name(i)));
  of.abandon(stripes[0]);
  for (const std::size_t i : {0u, 1u}) of.keys().unpin(stripes[i]);
  std::string other = "another";
  while (KeyTable::shardOf(view(other)) == KeyTable::shardOf(view(name(1)))) other += "!";
  EXPECT_EQ(of.pin(other), stripes[1]);
  EXPECT_EQ(of.pin(name(0)), stripes[0]);
  EXPECT_EQ(of.memory.word(stripes[0]).load(), kAbandoned);
}

// Until the shard of the oldest orphan is locked, another key can become the oldest.
TEST(KeyTable, ForgetsOnlyAKeyWhoseShardIsLocked) {
  Names of(2);
  std::string keys[] = {"one", "other"};
  // Hashes have a random seed in each process, so this looks for two keys in different shards.
  while (KeyTable::shardOf(view(keys[0])) == KeyTable::shardOf(view(keys[1]))) keys[1] += "!";
  std::uint32_t stripes[2]{};
  for (const int i : {0, 1}) {
    stripes[i] = of.pin(keys[i]);
    of.abandon(stripes[i]);
    of.keys().unpin(stripes[i]);
  }
  Barrier barrier("forget: before the shard");
  std::uint32_t stripe = KeyTable::kNone;
  std::thread pinning([&] { stripe = of.pin("new"); });
  ASSERT_TRUE(barrier.awaitArrival());
  EXPECT_EQ(of.pin(keys[0]), stripes[0]);
  barrier.open();
  pinning.join();
  EXPECT_EQ(stripe, stripes[1]);
  EXPECT_EQ(of.keys().size(), 2u);
  EXPECT_EQ(of.pin(keys[0]), stripes[0]);
  EXPECT_EQ(of.pin(keys[1]), KeyTable::kNone) << "it was forgotten";
}

TEST(KeyTable, GivesTwoNewKeysOfTwoShardsTwoStripes) {
  Names of(10);
  std::string other = "other";
  while (KeyTable::shardOf(view(other)) == KeyTable::shardOf(view("key"))) other += "!";
  Barrier barrier("allocate: before the count of used stripes changes");
  std::uint32_t first = KeyTable::kNone;
  std::thread pinning([&] { first = of.pin("key"); });
  ASSERT_TRUE(barrier.awaitArrival());
  const std::uint32_t second = of.pin(other);
  barrier.open();
  pinning.join();
  EXPECT_NE(first, second);
  EXPECT_EQ(of.keys().used(), 2u);
}

TEST(KeyTable, StartsWithFreeStripesOnMemoryThatAnEarlierTableLeft) {
  SharedMemory memory(3);
  memory.word(0).store(kAbandoned);
  Table table(memory.data(), 3, true);
  const std::uint32_t stripe = table.keys()->pin(view("key")).stripe;
  EXPECT_EQ(stripe, 0u);
  EXPECT_EQ(memory.word(0).load(), 0u);
}

TEST(KeyTable, ShowsEachKeyWithItsStripe) {
  Names of(100);
  std::map<std::string, std::uint32_t> expected;
  for (std::size_t i = 0; i < 100; ++i) expected[name(i)] = of.pin(name(i));
  std::map<std::string, std::uint32_t> shown;
  of.keys().forEach([&](std::string_view key, std::uint32_t stripe) { shown[std::string(key)] = stripe; });
  EXPECT_EQ(shown, expected);
}

TEST(KeyTable, GivesTheStripeThatIsGivenUpToTheNewKeyAtOnce) {
  Names of(1);
  const std::uint32_t stripe = of.pin("first");
  EXPECT_EQ(of.keys().pin(view("second"), stripe).stripe, stripe);
  EXPECT_EQ(of.keys().size(), 1u);
  // `idle` can also be the key's own stripe.
  EXPECT_EQ(of.keys().pin(view("second"), stripe).stripe, stripe);
  EXPECT_EQ(of.pin("first"), KeyTable::kNone);
  of.keys().unpin(stripe);
  EXPECT_EQ(of.keys().size(), 0u);
}

TEST(KeyTable, KeepsAStripeThatIsGivenUpForWhoeverElseNeedsIt) {
  Names of(8);
  const std::uint32_t twice = of.pin("twice");
  ASSERT_EQ(of.pin("twice"), twice);
  const std::uint32_t abandoned = of.pin("abandoned");
  of.abandon(abandoned);
  EXPECT_NE(of.keys().pin(view("one"), twice).stripe, twice);
  EXPECT_NE(of.keys().pin(view("two"), abandoned).stripe, abandoned);
  EXPECT_EQ(of.pin("twice"), twice);
  EXPECT_EQ(of.keys().orphans(), 1u);
  EXPECT_EQ(of.pin("abandoned"), abandoned);
}

TEST(KeyTable, FreesAStripeThatIsGivenUpIfTheKeyHasOne) {
  Names of(2);
  const std::uint32_t known = of.pin("known");
  const std::uint32_t idle = of.pin("idle");
  EXPECT_EQ(of.keys().pin(view("known"), idle).stripe, known);
  EXPECT_EQ(of.pin("new"), idle);
}

TEST(KeyTable, AgreesWithAMapWhateverIsPinnedUnpinnedAndAbandoned) {
  std::mt19937_64 random = seeded("KeyTable");
  struct Known {
    std::uint32_t stripe;
    int pins;
  };
  Names of(64);
  std::map<std::size_t, Known> known;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t number = random() % 100;
    const auto found = known.find(number);
    if (random() % 2 == 0) {
      std::uint32_t idle = KeyTable::kNone;
      const auto given = known.find(random() % 100);
      if (random() % 2 == 0 && given != known.end() && given != found) {
        idle = given->second.stripe;
        if (--given->second.pins == 0) known.erase(given);
      }
      const std::uint32_t stripe = of.keys().pin(view(name(number)), idle).stripe;
      if (found != known.end()) {
        ASSERT_EQ(stripe, found->second.stripe);
        ++found->second.pins;
      } else if (known.size() == 64) {
        ASSERT_EQ(stripe, KeyTable::kNone);
      } else {
        ASSERT_NE(stripe, KeyTable::kNone);
        for (const auto& [other, entry] : known) ASSERT_NE(entry.stripe, stripe) << other;
        known[number] = {stripe, 1};
      }
    } else if (found != known.end()) {
      of.keys().unpin(found->second.stripe);
      if (--found->second.pins == 0) known.erase(found);
    }
    ASSERT_EQ(of.keys().size(), known.size());
  }
}

}  // namespace stripelock::test
