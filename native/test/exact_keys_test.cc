// Exact keys as threads use them: pins, the end of a thread, and which keys stay pinned.

#include <array>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

TEST(ExactKeys, ArePinnedOncePerThreadHoweverOften) {
  SharedMemory memory(1);
  ExactPeer peer(memory);
  const std::uint32_t stripe = peer.pin("key");
  EXPECT_TRUE(peer.pins().pin(KeyView("key")).again);
  std::array<std::int32_t, 3> list{static_cast<std::int32_t>(stripe), static_cast<std::int32_t>(stripe), 0};
  EXPECT_EQ(peer.pins().unpin(list.data(), 3), 0u);
  EXPECT_EQ(peer.keys().size(), 0u);
  // The stripe now belongs to another key. The second entry for it in the list must not end a pin of that key.
  EXPECT_EQ(peer.pin("other"), stripe);
}

TEST(ExactKeys, AreToldOfADeathAfterTheLastThreadHasLeft) {
  SharedMemory memory(64);
  const std::string far(100, 'k');
  for (int round = 0; round < 3; ++round) {
    ExactPeer dying(memory);
    dying.pin("idle");
    for (const std::string& key : {std::string("near"), far, std::string("third")})
      ASSERT_TRUE(dying.client.acquireSync({dying.pin(key)}).status == Status::kGranted);
  }
  ExactPeer next(memory);
  EXPECT_EQ(next.keys().orphans(), 3u);
  EXPECT_EQ(next.keys().used(), 3u);
  EXPECT_EQ(countHeld(next.client.table()), 0u);
  std::set<std::uint32_t> stripes;
  for (const std::string& key : {std::string("idle"), std::string("near"), far}) {
    const std::uint32_t stripe = next.pin(key);
    EXPECT_TRUE(stripes.insert(stripe).second);
    EXPECT_EQ(next.pin(key), stripe);
    EXPECT_EQ(next.client.acquireSync({stripe}).abandoned, key != "idle");
    EXPECT_TRUE(next.client.release({stripe}));
  }
  EXPECT_EQ(next.keys().size(), 4u);
  EXPECT_EQ(next.keys().orphans(), 1u);
}

// Any code with a handle can write to the memory.
TEST(ExactKeys, MayBeLeftInAnyNumberByWhoeverWritesToTheMemory) {
  for (const std::int64_t left : {std::int64_t{-1}, std::int64_t{5}, std::int64_t{1} << 40}) {
    SharedMemory memory(4);
    static_cast<Cell*>(memory.data())[kLeftOrphans].store(left);
    ExactPeer peer(memory);
    EXPECT_EQ(peer.keys().orphans(), 4u);
    for (const char* const key : {"a", "b", "c", "d"}) EXPECT_NE(peer.pin(key), KeyTable::kNone);
    EXPECT_EQ(peer.pin("e"), KeyTable::kNone);
  }
  // A table keeps at most a quarter of its stripes as orphans, but up to four in a small table.
  for (const auto& [stripes, kept] : {std::pair{1u, 1u}, {2u, 2u}, {3u, 3u}, {17u, 4u}, {400u, 100u}}) {
    SharedMemory memory(stripes);
    static_cast<Cell*>(memory.data())[kLeftOrphans].store(400);
    ExactPeer peer(memory);
    EXPECT_EQ(peer.keys().orphans(), kept);
    EXPECT_EQ(peer.keys().used(), kept);
    for (std::uint32_t i = 0; i < stripes; ++i) EXPECT_LT(peer.pin(std::to_string(i)), stripes);
    EXPECT_EQ(peer.pin("another"), KeyTable::kNone);
  }
}

TEST(ExactKeys, StayPinnedWhileTheirThreadHoldsThem) {
  SharedMemory memory(4);
  ExactPeer peer(memory);
  const std::uint32_t held = peer.pin("held");
  const std::uint32_t shared = peer.pin("shared");
  const std::uint32_t idle = peer.pin("idle");
  ASSERT_TRUE(peer.client.take(held));
  ASSERT_TRUE(peer.client.take(shared, Mode::kShared));
  // A stripe may be listed twice, whether it is used or not.
  std::array<std::int32_t, 6> list{};
  std::size_t at = 0;
  for (const std::uint32_t stripe : {held, idle, held, shared, idle, held})
    list[at++] = static_cast<std::int32_t>(stripe);
  ASSERT_EQ(peer.pins().unpin(list.data(), list.size()), 2u);
  EXPECT_EQ((std::set{list[0], list[1]}),
            (std::set{static_cast<std::int32_t>(held), static_cast<std::int32_t>(shared)}));
  EXPECT_EQ(peer.keys().size(), 2u);
  EXPECT_EQ(peer.pin("held"), held);
  ASSERT_TRUE(peer.client.giveBack(held));
  ASSERT_TRUE(peer.client.giveBack(shared, Mode::kShared));
  EXPECT_FALSE(peer.unpin(held));
  EXPECT_FALSE(peer.unpin(shared));
  EXPECT_EQ(peer.keys().size(), 0u);
}

TEST(ExactKeys, StayPinnedWhileAnAcquisitionWaitsForThem) {
  SharedMemory memory(4);
  ExactPeer holder(memory);
  ExactPeer waiter(memory);
  const std::uint32_t first = holder.pin("first");
  ASSERT_EQ(waiter.pin("first"), first);
  const std::uint32_t second = waiter.pin("second");
  ASSERT_TRUE(holder.client.take(first));
  const std::uint32_t id = waiter.client.pend({first, second});
  EXPECT_TRUE(waiter.unpin(first));
  // The waiter is not linked at the second stripe yet.
  EXPECT_TRUE(waiter.unpin(second));
  ASSERT_TRUE(waiter.async().cancel(id));
  EXPECT_FALSE(waiter.unpin(first));
  EXPECT_FALSE(waiter.unpin(second));
  ASSERT_TRUE(holder.client.giveBack(first) || holder.client.release({first}));
}

TEST(ExactKeys, StayPinnedFromTheGrantToTheRelease) {
  SharedMemory memory(4);
  ExactPeer holder(memory);
  ExactPeer waiter(memory);
  const std::uint32_t stripe = holder.pin("key");
  ASSERT_EQ(waiter.pin("key"), stripe);
  ASSERT_TRUE(holder.client.take(stripe));
  waiter.client.pend({stripe});
  makeHandOverDue(holder.client, stripe);
  ASSERT_TRUE(holder.client.release({stripe}));
  // The waiter was granted the stripe, but has not collected the grant.
  EXPECT_TRUE(waiter.unpin(stripe));
  ASSERT_EQ(awaitGrants(waiter.environment).size(), 1u);
  EXPECT_TRUE(waiter.unpin(stripe));
  ASSERT_TRUE(waiter.client.release({stripe}));
  EXPECT_FALSE(waiter.unpin(stripe));
}

TEST(ExactKeys, OfAThreadThatEndsAreUnpinnedAndThoseItHeldKept) {
  SharedMemory memory(8);
  ExactPeer living(memory);
  std::uint32_t held = 0;
  {
    ExactPeer dying(memory);
    held = dying.pin("held");
    dying.pin("idle");
    ASSERT_TRUE(dying.client.take(held));
    EXPECT_EQ(living.keys().size(), 2u);
  }
  EXPECT_EQ(living.keys().size(), 1u);
  EXPECT_EQ(living.keys().orphans(), 1u);
  EXPECT_EQ(memory.word(held).load(), kAbandoned);
  EXPECT_EQ(living.pin("held"), held);
  EXPECT_TRUE(living.client.acquireSync({held}).abandoned);
  ASSERT_TRUE(living.client.release({held}));
  EXPECT_FALSE(living.unpin(held));
  EXPECT_EQ(living.keys().size(), 0u);
}

TEST(ExactKeys, OfAThreadThatEndsPassToTheWaiterWithTheirStripe) {
  SharedMemory memory(8);
  ExactPeer waiter(memory);
  std::uint32_t stripe = 0;
  {
    ExactPeer dying(memory);
    stripe = dying.pin("key");
    ASSERT_TRUE(dying.client.take(stripe));
    ASSERT_EQ(waiter.pin("key"), stripe);
    waiter.client.pend({stripe});
  }
  const auto grants = awaitGrants(waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_TRUE(grants[0].abandoned);
  EXPECT_EQ(waiter.pin("key"), stripe);
  EXPECT_EQ(waiter.keys().size(), 1u);
  ASSERT_TRUE(waiter.client.release({stripe}));
}

TEST(ExactKeys, AreGivenUpForAnotherOnlyWhileTheirThreadDoesNotUseThem) {
  SharedMemory memory(4);
  ExactPeer peer(memory);
  const std::uint32_t held = peer.pin("held");
  ASSERT_TRUE(peer.client.take(held));
  const KeyPins::Pinned beside = peer.pins().pin(KeyView("new"), held);
  EXPECT_FALSE(beside.ended);
  EXPECT_NE(beside.stripe, held);
  ASSERT_TRUE(peer.client.giveBack(held));
  const KeyPins::Pinned instead = peer.pins().pin(KeyView("other"), held);
  EXPECT_TRUE(instead.ended);
  EXPECT_EQ(instead.stripe, held);
  // The stripe now belongs to the key "other", whose pin is a separate one.
  EXPECT_FALSE(peer.unpin(held));
  EXPECT_FALSE(peer.unpin(beside.stripe));
  EXPECT_EQ(peer.keys().size(), 0u);
}

TEST(ExactKeys, AreGivenUpAlsoIfThereIsNoStripeForTheOther) {
  SharedMemory memory(2);
  ExactPeer peer(memory);
  ExactPeer other(memory);
  const std::uint32_t stripe = peer.pin("both");
  ASSERT_EQ(other.pin("both"), stripe);
  ASSERT_NE(other.pin("theirs"), KeyTable::kNone);
  const KeyPins::Pinned refused = peer.pins().pin(KeyView("new"), stripe);
  EXPECT_EQ(refused.stripe, KeyTable::kNone);
  EXPECT_TRUE(refused.ended);
  EXPECT_FALSE(peer.unpin(stripe));
  // The other thread's pin is the last one.
  EXPECT_FALSE(other.unpin(stripe));
  EXPECT_EQ(peer.keys().size(), 1u);
  EXPECT_EQ(peer.pin("new"), stripe);
}

// A debugger can run JavaScript during the blocked call. That code may also look up and unpin keys.
TEST(ExactKeys, StayPinnedWhileTheirThreadBlocks) {
  SharedMemory memory(2);
  ExactPeer holder(memory);
  ExactPeer waiter(memory);
  const std::uint32_t stripe = holder.pin("key");
  ASSERT_EQ(waiter.pin("key"), stripe);
  ASSERT_TRUE(holder.client.take(stripe));
  Blocking blocked(waiter.client, {stripe});
  ASSERT_TRUE(awaitWaiters(holder.client, stripe, 1));
  const KeyPins::Pinned beside = waiter.pins().pin(KeyView("other"), stripe, true);
  EXPECT_FALSE(beside.ended);
  EXPECT_NE(beside.stripe, stripe);
  std::array<std::int32_t, 2> both{static_cast<std::int32_t>(stripe),
                                   static_cast<std::int32_t>(beside.stripe)};
  EXPECT_EQ(waiter.pins().unpin(both.data(), both.size(), true), 2u);
  ASSERT_TRUE(holder.client.release({stripe}));
  EXPECT_EQ(blocked.status(), Status::kGranted);
  EXPECT_FALSE(holder.unpin(stripe));
  EXPECT_TRUE(waiter.pins().pin(KeyView("key")).again);
  // The waiter now holds "key", so only "other" is unpinned.
  EXPECT_EQ(waiter.pins().unpin(both.data(), both.size()), 1u);
  EXPECT_EQ(both[0], static_cast<std::int32_t>(stripe));
  EXPECT_EQ(holder.pin("new"), beside.stripe);
  ASSERT_TRUE(waiter.client.release({stripe}));
}

// The thread with the last pin reads the word while the other thread waits for the shard. The other thread then pins
// the key.
TEST(ExactKeys, ThatArePinnedAsTheLastPinEndsHaveOneStripe) {
  SharedMemory memory(8);
  ExactPeer one(memory);
  const std::uint32_t stripe = one.pin("key");
  Barrier barrier("unpin: before the word is read");
  std::uint32_t other = 0;
  std::atomic<bool> done{false};
  std::thread unpins([&] { EXPECT_FALSE(one.unpin(stripe)); });
  ASSERT_TRUE(barrier.awaitArrival());
  std::thread pins([&] {
    ExactPeer two(memory);
    other = two.pin("key");
    EXPECT_TRUE(two.client.take(other));
    EXPECT_TRUE(two.unpin(other));
    EXPECT_EQ(two.pin("key"), other);
    EXPECT_TRUE(two.client.release({other}));
    done.store(true);
  });
  EXPECT_FALSE(done.load());
  barrier.open();
  unpins.join();
  pins.join();
  EXPECT_EQ(one.keys().size(), 0u);
}

// Threads lock many more keys than the table has stripes, and some threads end while they hold a key.
TEST(ExactKeys, LoseNoUpdateWhileStripesAreRecycledAndThreadsEnd) {
  constexpr std::uint32_t kStripes = 24;
  constexpr std::size_t kKeys = 96;
  constexpr int kThreads = 4;
  SharedMemory memory(kStripes);
  ExactPeer keeper(memory);
  std::array<std::uint64_t, kKeys> counters{};
  std::array<std::atomic<std::uint64_t>, kKeys> expected{};
  std::mt19937_64 seeds = seeded("exact keys");
  const Nanoseconds end = now() + static_cast<Nanoseconds>(numberFrom("STRIPELOCK_SECONDS", 2)) * 500'000'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, seed = seeds()] {
      std::mt19937_64 random(seed);
      while (now() < end) {
        ExactPeer peer(memory);
        std::uint32_t last = KeyTable::kNone;
        for (std::uint64_t rounds = random() % 200; rounds > 0; --rounds) {
          const std::size_t key = random() % kKeys;
          const std::string name = "key " + std::to_string(key);
          const std::uint32_t idle = random() % 2 == 0 ? last : KeyTable::kNone;
          const std::uint32_t stripe = peer.pins().pin(KeyView(name), idle).stripe;
          // All stripes have other keys.
          if (stripe == KeyTable::kNone) continue;
          ASSERT_EQ(peer.client.sync({stripe}), Status::kGranted);
          ++counters[key];
          expected[key].fetch_add(1);
          // The thread ends without releasing the key.
          if (rounds == 1 && random() % 2 == 0) break;
          ASSERT_TRUE(peer.client.release({stripe}));
          if (random() % 4 != 0) peer.unpin(stripe);
          last = stripe;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t key = 0; key < kKeys; ++key) EXPECT_EQ(counters[key], expected[key].load()) << key;
  EXPECT_EQ(keeper.keys().size(), keeper.keys().orphans());
  EXPECT_LE(keeper.keys().orphans(), keeper.keys().mostOrphans());
}

}  // namespace stripelock::test
