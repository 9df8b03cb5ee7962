#include "core/base/key_map.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "test/support.h"

namespace stripelock::test {

namespace {

struct Node : KeyNode<Node> {
  using KeyNode::KeyNode;
  std::uint32_t number = 0;
};

std::string name(std::uint32_t number) {
  // Some keys are too long to be stored in the node.
  return (number % 3 == 0 ? std::string(100, 'k') : std::string("k")) + std::to_string(number);
}

Node& add(KeyMap<Node>& table, std::uint32_t number) {
  const std::string text = name(number);
  Node& added = table.add(std::make_unique<Node>(KeyView(text)));
  added.number = number;
  return added;
}

Node* find(KeyMap<Node>& table, std::uint32_t number) {
  const std::string text = name(number);
  return table.find(KeyView(text));
}

}  // namespace

TEST(KeyMap, FindsWhatWasAddedAndNothingElseWhileItGrowsAndShrinks) {
  constexpr std::uint32_t kMany = 3000;
  KeyMap<Node> table;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(find(table, i), nullptr);
    Node& added = add(table, i);
    EXPECT_EQ(find(table, i), &added);
    EXPECT_EQ(table.size(), i + 1);
  }
  for (std::uint32_t i = 0; i < kMany; ++i) ASSERT_EQ(find(table, i)->number, i);
  for (std::uint32_t i = 0; i < kMany; ++i) {
    ASSERT_EQ(table.remove(*find(table, i))->number, i);
    ASSERT_EQ(find(table, i), nullptr);
    if (i % 100 == 0) {
      for (std::uint32_t rest = i + 1; rest < kMany; ++rest) ASSERT_EQ(find(table, rest)->number, rest);
    }
  }
  EXPECT_TRUE(table.empty());
}

TEST(KeyMap, AgreesWithAMapWhateverIsAddedAndRemoved) {
  std::mt19937_64 random = seeded("KeyMap");
  KeyMap<Node> table;
  std::map<std::uint32_t, Node*> expected;
  for (int phase = 0; phase < 20; ++phase) {
    // Mostly growing, then mostly shrinking.
    const std::uint64_t additions = phase % 2 == 0 ? 8 : 2;
    for (int i = 0; i < 2000; ++i) {
      const auto number = static_cast<std::uint32_t>(random() % 10'000);
      const auto known = expected.find(number);
      ASSERT_EQ(find(table, number), known == expected.end() ? nullptr : known->second);
      if (random() % 10 < additions) {
        if (known == expected.end()) expected[number] = &add(table, number);
      } else if (known != expected.end()) {
        table.remove(*known->second);
        expected.erase(known);
      }
      ASSERT_EQ(table.size(), expected.size());
    }
    for (const auto& [number, node] : expected) ASSERT_EQ(find(table, number), node);
  }
}

TEST(KeyMap, GivesKeysThatWereChosenToMeetInAChainPlacesOfTheirOwn) {
  constexpr std::uint64_t kPlaces = 1 << 16;
  std::set<std::uint64_t> places;
  std::size_t keys = 0;
  for (std::uint32_t i = 0; keys < 16; ++i) {
    const std::string key = std::to_string(i);
    if (hashBytes(key.data(), key.size()) % kPlaces != 0) continue;
    ++keys;
    places.insert(KeyView(key).hash % kPlaces);
  }
  EXPECT_GT(places.size(), 12u);
}

}  // namespace stripelock::test
