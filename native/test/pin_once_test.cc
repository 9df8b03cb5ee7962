// Keys that are pinned once, and whose stripes are reused for other keys.

#include <array>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/worlds.h"

namespace stripelock::test {

namespace {

// Different keys of one shard. Every other one is too long to lie in its node.
std::vector<std::string> keysOfAShard(std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; keys.size() < count; ++i) {
    std::string key = std::string(keys.size() % 2 == 0 ? 1 : 100, 'k') + std::to_string(i);
    if (KeyTable::shardOf(KeyView(key)) == 7) keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace

TEST(PinOnce, GivesTheStripeOfAnIdleKeyToTheNextOfItsShard) {
  SharedMemory memory(100);
  ExactPeer peer(memory);
  ExactPeer other(memory);
  const auto keys = keysOfAShard(20);
  const Membership::Pinned first = peer.pinOnce(keys[0]);
  EXPECT_FALSE(first.reused);
  for (std::size_t i = 1; i < keys.size(); ++i) {
    const Membership::Pinned next = peer.pinOnce(keys[i]);
    EXPECT_TRUE(next.reused);
    EXPECT_FALSE(next.again);
    EXPECT_EQ(next.stripe, first.stripe);
    EXPECT_EQ(peer.keys().size(), 1u);
  }
  EXPECT_EQ(other.pin(keys.back()), first.stripe);
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) EXPECT_NE(other.pin(keys[i]), first.stripe);
}

TEST(PinOnce, FindsAKeyThatIsPinned) {
  SharedMemory memory(100);
  ExactPeer peer(memory);
  ExactPeer other(memory);
  const auto keys = keysOfAShard(3);
  const std::uint32_t stripe = peer.pinOnce(keys[0]).stripe;
  const Membership::Pinned same = peer.pinOnce(keys[0]);
  EXPECT_TRUE(same.again);
  EXPECT_FALSE(same.reused);
  EXPECT_EQ(same.stripe, stripe);
  const std::uint32_t others = other.pin(keys[1]);
  EXPECT_EQ(peer.pinOnce(keys[1]).stripe, others);
  // That is the one to be reused from now on. It is not, while the other has it, too.
  EXPECT_FALSE(peer.pinOnce(keys[2]).reused);
  EXPECT_EQ(peer.pin(keys[0]), stripe);
  EXPECT_EQ(peer.pin(keys[1]), others);
}

TEST(PinOnce, LeavesAKeyInUseItsStripe) {
  SharedMemory memory(100);
  ExactPeer peer(memory);
  const auto keys = keysOfAShard(4);
  const std::uint32_t held = peer.pinOnce(keys[0]).stripe;
  ASSERT_TRUE(peer.client.take(held));
  const std::uint32_t shared = peer.pinOnce(keys[1]).stripe;
  ASSERT_NE(shared, held);
  ASSERT_TRUE(peer.client.take(shared, Mode::kShared));
  const std::uint32_t waited = peer.pinOnce(keys[2]).stripe;
  ASSERT_NE(waited, shared);
  // Its word may be 0 while an acquisition is on its way into the queue.
  peer.client.membership().countWaits(&waited, 1, +1);
  EXPECT_NE(peer.pinOnce(keys[3]).stripe, waited);
  EXPECT_EQ(peer.pin(keys[0]), held);
  EXPECT_EQ(peer.pin(keys[1]), shared);
  EXPECT_EQ(peer.pin(keys[2]), waited);
  peer.client.membership().countWaits(&waited, 1, -1);
  ASSERT_TRUE(peer.client.giveBack(held));
  ASSERT_TRUE(peer.client.giveBack(shared, Mode::kShared));
}

TEST(PinOnce, LeavesAKeyThatWasPinnedOtherwiseSinceItsStripe) {
  SharedMemory memory(100);
  ExactPeer peer(memory);
  const auto keys = keysOfAShard(2);
  const std::uint32_t stripe = peer.pinOnce(keys[0]).stripe;
  EXPECT_TRUE(peer.client.membership().pin(KeyView(keys[0])).again);
  EXPECT_FALSE(peer.pinOnce(keys[1]).reused);
  EXPECT_EQ(peer.pin(keys[0]), stripe);
}

TEST(PinOnce, LeavesAKeyThatWasPinnedOtherwiseBeforeItsStripe) {
  SharedMemory memory(100);
  ExactPeer peer(memory);
  const auto keys = keysOfAShard(2);
  const std::uint32_t stripe = peer.pin(keys[0]);
  EXPECT_TRUE(peer.pinOnce(keys[0]).again);
  EXPECT_FALSE(peer.pinOnce(keys[1]).reused);
  EXPECT_EQ(peer.pin(keys[0]), stripe);
}

TEST(PinOnce, LeavesAnAbandonedKeyItsStripe) {
  SharedMemory memory(100);
  ExactPeer peer(memory);
  const auto keys = keysOfAShard(2);
  std::uint32_t stripe = 0;
  {
    ExactPeer dying(memory);
    stripe = dying.pinOnce(keys[0]).stripe;
    ASSERT_TRUE(dying.client.take(stripe));
  }
  EXPECT_EQ(peer.pinOnce(keys[0]).stripe, stripe);
  EXPECT_FALSE(peer.pinOnce(keys[1]).reused);
  EXPECT_EQ(peer.pin(keys[0]), stripe);
  EXPECT_TRUE(peer.client.acquireSync({stripe}).abandoned);
  ASSERT_TRUE(peer.client.release({stripe}));
}

TEST(PinOnce, ReusesNoStripeThatWasUnpinned) {
  SharedMemory memory(100);
  ExactPeer peer(memory);
  ExactPeer other(memory);
  const auto keys = keysOfAShard(3);
  const std::uint32_t stripe = peer.pinOnce(keys[0]).stripe;
  EXPECT_FALSE(peer.unpin(stripe));
  EXPECT_EQ(peer.keys().size(), 0u);
  ASSERT_EQ(other.pin(keys[1]), stripe);
  EXPECT_FALSE(peer.pinOnce(keys[2]).reused);
  EXPECT_EQ(other.pin(keys[1]), stripe);
}

TEST(PinOnce, NeedsNoSecondStripe) {
  SharedMemory memory(1);
  ExactPeer peer(memory);
  for (const std::string& key : keysOfAShard(3)) EXPECT_EQ(peer.pinOnce(key).stripe, 0u);
  ASSERT_TRUE(peer.client.take(0));
  EXPECT_EQ(peer.pinOnce("another").stripe, KeyTable::kNone);
  ASSERT_TRUE(peer.client.giveBack(0));
}

TEST(PinOnce, EndsWithItsThread) {
  SharedMemory memory(100);
  ExactPeer living(memory);
  {
    ExactPeer dying(memory);
    for (const std::string& key : keysOfAShard(3)) dying.pinOnce(key);
    dying.pinOnce("another");
    EXPECT_GE(living.keys().size(), 1u);
  }
  EXPECT_EQ(living.keys().size(), 0u);
}

TEST(PinOnce, AgreesWithAMapWhateverIsHeldAndUnpinned) {
  std::mt19937_64 random = seeded("PinOnce");
  constexpr std::size_t kKeys = 400;
  SharedMemory memory(kKeys);
  std::array<ExactPeer, 2> peers{ExactPeer(memory), ExactPeer(memory)};
  // What is held, and by whom.
  std::map<std::uint32_t, std::pair<std::size_t, ExactPeer*>> held;
  for (int i = 0; i < 40'000; ++i) {
    const std::size_t key = random() % kKeys;
    ExactPeer& peer = peers[random() % 2];
    const std::string name = "key " + std::to_string(key);
    const bool once = random() % 4 != 0;
    const std::uint32_t stripe = once ? peer.pinOnce(name).stripe : peer.pin(name);
    ASSERT_NE(stripe, KeyTable::kNone);
    const auto found = held.find(stripe);
    if (found != held.end()) {
      ASSERT_EQ(found->second.first, key);
    } else if (random() % 4 == 0) {
      ASSERT_TRUE(peer.client.take(stripe));
      held[stripe] = {key, &peer};
    }
    if (random() % 2 == 0 && !held.empty()) {
      const auto first = held.begin();
      ASSERT_TRUE(first->second.second->client.giveBack(first->first));
      held.erase(first);
    }
    if (!once) peer.unpin(stripe);
  }
  std::map<std::uint32_t, std::string> shown;
  std::size_t keys = 0;
  peers[0].keys().forEach([&](std::string_view key, std::uint32_t stripe) {
    shown[stripe] = key;
    ++keys;
  });
  EXPECT_EQ(shown.size(), keys);
  for (const auto& [stripe, holder] : held) {
    EXPECT_EQ(shown[stripe], "key " + std::to_string(holder.first));
    ASSERT_TRUE(holder.second->client.giveBack(stripe));
  }
}

}  // namespace stripelock::test
