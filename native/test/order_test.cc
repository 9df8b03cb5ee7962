// Steps whose order matters to other threads. Each test stops a thread in the middle of such a step.

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

TEST(Order, GivesASlotToAnotherThreadAfterNoWordNamesIt) {
  SharedMemory memory(2);
  Peer keeper(memory);
  std::optional<Peer> ending(std::in_place, memory);
  ASSERT_TRUE(ending->client.take(0));
  const std::uint32_t slot = ending->slot();
  for (const char* point : {"leave: before the waits are cancelled", "end: before the stripes are freed"}) {
    if (!ending) {
      ending.emplace(memory);
      ASSERT_EQ(ending->slot(), slot);
      ASSERT_EQ(ending->client.sync({0}), Status::kGranted);
    }
    Barrier barrier(point);
    std::thread leaving([&] { ending->environment.end(); });
    const bool arrived = barrier.awaitArrival();
    {
      Peer other(memory);
      EXPECT_NE(other.slot(), slot);
      EXPECT_EQ(holderOf(memory.word(0).load()), slot);
    }
    barrier.open();
    leaving.join();
    ASSERT_TRUE(arrived);
    ending.reset();
    EXPECT_EQ(memory.word(0).load(), kAbandoned);
  }
  EXPECT_EQ(keeper.client.sync({0}), Status::kGranted);
}

namespace {

// The granting thread first finds stripe 1 held, and then free. It is stopped between stripe 1 and stripe 2.
struct BetweenQueues {
  static inline Client* holder = nullptr;
  static inline std::uint32_t passedBy = 0;
  static inline std::atomic<int> positions{0};
  static inline std::atomic<bool> open{false};

  BetweenQueues(Client& client, std::uint32_t stripe) {
    holder = &client;
    passedBy = stripe;
    positions.store(0);
    open.store(false);
    onSeam([](const char* point) {
      if (std::strcmp(point, "proceed: before the next shard") == 0) {
        holder->giveBack(passedBy);
      } else if (std::strcmp(point, "proceed: before the position changes") == 0 &&
                 positions.fetch_add(1) == 1) {
        while (!open.load()) std::this_thread::yield();
      }
    });
  }
  ~BetweenQueues() {
    open.store(true);
    onSeam(nullptr);
  }
  BetweenQueues(const BetweenQueues&) = delete;
  BetweenQueues& operator=(const BetweenQueues&) = delete;
};

}  // namespace

// While the waiter is in no queue, a thread that searches for it must wait.
TEST(Order, ChangesAPositionBeforeTheShardOfTheOldOneIsFree) {
  // First all stripes are in separate shards, then the last two are in one shard.
  for (const Stripes& stripes : {Stripes{0, 100, 199}, Stripes{0, 198, 199}}) {
    SharedMemory memory(200);
    Peer holder(memory);
    Peer waiter(memory);
    for (const std::uint32_t stripe : stripes) ASSERT_TRUE(holder.client.take(stripe));
    const std::uint32_t id = waiter.client.pend(stripes);
    makeHandOverDue(holder.client, 0);
    {
      BetweenQueues between(holder.client, stripes[1]);
      std::thread releasing([&] { EXPECT_TRUE(holder.client.releaseSlow(0)); });
      const bool stopped = eventually([] { return BetweenQueues::positions.load() == 2; });
      std::atomic<bool> cancelled{false};
      std::thread cancelling([&] {
        EXPECT_TRUE(waiter.async().cancel(id));
        cancelled.store(true);
      });
      // Long enough for the cancellation to find the waiter in the wrong queue, if that were possible.
      const Deadline soon = Deadline::after(100);
      while (!cancelled.load() && !soon.passedAt(now())) std::this_thread::yield();
      EXPECT_FALSE(cancelled.load());
      BetweenQueues::open.store(true);
      releasing.join();
      cancelling.join();
      ASSERT_TRUE(stopped);
    }
    EXPECT_EQ(countHeld(holder.client.table()), 1u);
    for (const std::uint32_t stripe : stripes) EXPECT_EQ(waitersOf(holder.client, stripe), 0u);
  }
}

// The waiter is found at its current place, not at its place when the search began.
TEST(Order, FindsAWaiterThatMovesOnAsItIsLookedFor) {
  SharedMemory memory(200);
  Peer holder(memory);
  Peer waiter(memory);
  Peer behind(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(holder.client.take(199));
  const std::uint32_t id = waiter.client.pend({0, 199});
  behind.client.pend({199});
  makeHandOverDue(holder.client, 0);
  {
    Barrier barrier("find: before the shard");
    std::atomic<bool> cancelled{false};
    std::thread cancelling([&] {
      EXPECT_TRUE(waiter.async().cancel(id));
      cancelled.store(true);
    });
    const bool arrived = barrier.awaitArrival();
    EXPECT_TRUE(holder.client.release({0}));
    EXPECT_EQ(waitersOf(holder.client, 199), 2u);
    {
      // The cancellation must lock the shard where the waiter is now, so it cannot finish while this thread has that
      // shard locked.
      const Lock lock(holder.client.table().shardOf(199));
      barrier.open();
      const Deadline soon = Deadline::after(100);
      while (!cancelled.load() && !soon.passedAt(now())) std::this_thread::yield();
      EXPECT_FALSE(cancelled.load());
    }
    cancelling.join();
    ASSERT_TRUE(arrived);
  }
  EXPECT_EQ(memory.word(0).load(), 0u);
  EXPECT_EQ(waitersOf(holder.client, 199), 1u);
  EXPECT_TRUE(holder.client.release({199}));
  EXPECT_EQ(awaitGrants(behind.environment).size(), 1u);
}

}  // namespace stripelock::test
