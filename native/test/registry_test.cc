#include "core/table/registry.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

TEST(Registry, GivesEveryLivingThreadASlotOfItsOwn) {
  std::set<std::uint32_t> slots;
  std::vector<std::unique_ptr<Environment>> environments;
  for (int i = 0; i < 100; ++i) {
    environments.push_back(std::make_unique<Environment>());
    EXPECT_GE(environments.back()->slot(), 1u);
    EXPECT_TRUE(slots.insert(environments.back()->slot()).second);
    EXPECT_EQ(Registry::instance().bySlot(environments.back()->slot()), &environments.back()->participant());
  }
}

TEST(Registry, UsesTheSlotsOfEndedThreadsAgain) {
  std::set<std::uint32_t> slots;
  for (int i = 0; i < 1000; ++i) slots.insert(Environment().slot());
  EXPECT_EQ(slots.size(), 1u);
}

TEST(Registry, KnowsNoParticipantByWhatNeverWasASlot) {
  EXPECT_EQ(Registry::instance().bySlot(0), nullptr);
  EXPECT_EQ(Registry::instance().bySlot(kMaxSlots + 1), nullptr);
  EXPECT_EQ(Registry::instance().bySlot(0xffffffffu), nullptr);
}

TEST(Registry, RefusesAThreadWhenAllSlotsAreTaken) {
  std::vector<Participant*> participants;
  while (Participant* const participant = Registry::instance().join(1, {}))
    participants.push_back(participant);
  EXPECT_LE(participants.size(), kMaxSlots);
  EXPECT_GT(participants.size(), kMaxSlots - 1000);
  EXPECT_EQ(Registry::instance().join(1, {}), nullptr);
  Registry::instance().leave(*participants.back());
  Participant* const again = Registry::instance().join(1, {});
  EXPECT_EQ(again, participants.back());
  for (Participant* const participant : participants) Registry::instance().leave(*participant);
}

TEST(Registry, LeavesNothingOfTheFormerThreadInASlot) {
  SharedMemory memory(2);
  Peer holder(memory);
  ASSERT_TRUE(holder.client.take(0));
  std::uint32_t slot = 0;
  {
    Peer former(memory);
    slot = former.slot();
    former.client.pend({0});
    ASSERT_TRUE(former.client.take(1));
  }
  Peer later(memory);
  ASSERT_EQ(later.slot(), slot);
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_FALSE(later.async().hasReady());
  EXPECT_EQ(later.environment.wakes(), 0);
  EXPECT_FALSE(later.client.releaseSlow(1));
  EXPECT_EQ(memory.word(0).load(), 0u);
}

TEST(Registry, RefusesMemoryThatIsInUseWithAnotherNumberOfStripes) {
  SharedMemory memory(4);
  Peer peer(memory);
  Environment other;
  EXPECT_EQ(Registry::instance().open(peer.environment.participant(), memory.data(), 3), nullptr);
  EXPECT_EQ(Registry::instance().open(other.participant(), memory.data(), 3), nullptr);
  EXPECT_TRUE(other.participant().memberships.empty());
  Membership* const membership = Registry::instance().open(other.participant(), memory.data(), 4);
  ASSERT_NE(membership, nullptr);
  EXPECT_EQ(&membership->table(), &peer.client.table());
}

TEST(Registry, EndsAMembershipWithItsLastUse) {
  SharedMemory memory(1);
  Environment environment;
  Client client(environment, memory);
  Registry& registry = Registry::instance();
  Membership* const again = registry.open(environment.participant(), memory.data(), 1);
  ASSERT_EQ(again, &client.membership());
  ASSERT_TRUE(client.take(0));
  registry.close(*again);
  EXPECT_EQ(memory.word(0).load(), environment.slot());
  client.close();
  EXPECT_EQ(memory.word(0).load(), kAbandoned);
  EXPECT_TRUE(environment.participant().memberships.empty());
}

TEST(Registry, MakesANewTableForMemoryThatEverybodyHasClosed) {
  SharedMemory memory(4);
  for (const std::uint32_t stripes : {4u, 2u, 4u}) {
    Environment environment;
    Membership* const membership =
        Registry::instance().open(environment.participant(), memory.data(), stripes);
    ASSERT_NE(membership, nullptr);
    EXPECT_EQ(membership->table().stripes(), stripes);
    Registry::instance().close(*membership);
  }
}

TEST(Registry, TellsTheNextGenerationWhatTheLastOneAbandoned) {
  SharedMemory memory(2);
  {
    Peer last(memory);
    ASSERT_TRUE(last.client.take(0));
    last.environment.end();
  }
  Peer next(memory);
  EXPECT_TRUE(next.client.acquireSync({0}).abandoned);
  EXPECT_FALSE(next.client.acquireSync({1}).abandoned);
}

TEST(Registry, OpensAndClosesOneOfManyTablesAsFastAsOneOfFew) {
  constexpr std::size_t kTables = 20'000;
  constexpr std::size_t kPart = 1'000;
  std::vector<std::unique_ptr<SharedMemory>> memories;
  for (std::size_t i = 0; i < kTables; ++i) memories.push_back(std::make_unique<SharedMemory>(1));
  Environment environment;
  Registry& registry = Registry::instance();
  std::vector<Membership*> memberships;
  // Uses the shortest time of these parts, so that other load on the machine does not count.
  const auto quickest = [](const std::vector<Nanoseconds>& parts, std::size_t from, std::size_t to) {
    return *std::min_element(parts.begin() + static_cast<std::ptrdiff_t>(from),
                             parts.begin() + static_cast<std::ptrdiff_t>(to));
  };
  std::vector<Nanoseconds> opening;
  std::vector<Nanoseconds> closing;
  for (std::size_t i = 0; i < kTables;) {
    const Nanoseconds start = now();
    for (const std::size_t end = i + kPart; i < end; ++i) {
      memberships.push_back(registry.open(environment.participant(), memories[i]->data(), 1));
    }
    opening.push_back(now() - start);
  }
  // Closes alternately from the front and from the back. A search from either end would be slow for one of the two.
  for (std::size_t i = 0; i < kTables;) {
    const Nanoseconds start = now();
    for (const std::size_t end = i + kPart; i < end; ++i) {
      registry.close(*memberships[i % 2 == 0 ? i / 2 : kTables - 1 - i / 2]);
    }
    closing.push_back(now() - start);
  }
  EXPECT_TRUE(environment.participant().memberships.empty());
  // Searching through all tables gives a ratio of 80. The caches of the processor and of the allocator give up to 7.
  const std::size_t parts = opening.size();
  constexpr Nanoseconds kSlower = 20;
  EXPECT_LT(quickest(opening, parts - 5, parts), kSlower * quickest(opening, 0, 5));
  EXPECT_LT(quickest(closing, 0, 5), kSlower * quickest(closing, parts - 5, parts));
}

TEST(Registry, FindsEachMemberOfATableWhoeverHasLeft) {
  SharedMemory memory(1);
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 8; ++i) peers.push_back(std::make_unique<Peer>(memory));
  for (const auto& peer : peers) ASSERT_EQ(peer->client.sync({0}, {.mode = Mode::kShared}), Status::kGranted);
  // Removes a member from the middle, the front and the back.
  for (const std::size_t gone : {3u, 0u, 5u}) {
    const std::int32_t id = peers[gone]->environment.threadId();
    peers.erase(peers.begin() + static_cast<std::ptrdiff_t>(gone));
    const std::vector<std::int32_t> holders = holdersOf(peers.front()->client.table(), 0);
    EXPECT_EQ(holders.size(), peers.size());
    EXPECT_EQ(std::count(holders.begin(), holders.end(), id), 0);
    for (const auto& peer : peers) {
      EXPECT_EQ(std::count(holders.begin(), holders.end(), peer->environment.threadId()), 1);
    }
  }
}

TEST(Registry, KeepsATableForAsLongAsOneThreadUsesIt) {
  SharedMemory memory(2);
  std::vector<std::thread> threads;
  int counter = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      // Opens and closes all the time, so that tables appear and disappear while others use them.
      for (int round = 0; round < 400; ++round) {
        Peer peer(memory);
        ASSERT_EQ(peer.client.sync({0, 1}), Status::kGranted);
        ++counter;
        ASSERT_TRUE(peer.client.release({0, 1}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 4 * 400);
}

// Reading a million words would only delay the end of the process: no thread reads the words afterwards.
TEST(Registry, LeavesTheWordsAsTheyAreWhenTheMainThreadIsTheLastToEnd) {
  constexpr std::uint32_t kStripes = 4;
  SharedMemory memory(kStripes);
  Registry& registry = Registry::instance();
  for (const bool alone : {false, true}) {
    std::optional<Peer> peer;
    if (!alone) peer.emplace(memory);
    Participant& main = *registry.join(0, {});
    Membership* const membership = registry.open(main, memory.data(), kStripes);
    bool abandoned = false;
    ASSERT_TRUE(membership->table().tryTake(1, main.slot(), Mode::kExclusive, abandoned));
    const std::uint32_t slot = main.slot();
    registry.leave(main);
    EXPECT_EQ(memory.word(1).load(), alone ? slot : kAbandoned);
    if (alone) break;
    EXPECT_TRUE(peer->client.acquireSync({1}).abandoned);
    EXPECT_TRUE(peer->client.release({1}));
  }
}

}  // namespace stripelock::test
