#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

TEST(Fairness, GivesAsyncWaitersTheirTurnInOrderOfArrival) {
  SharedMemory memory(1);
  Peer holder(memory);
  ASSERT_TRUE(holder.client.take(0));
  std::vector<std::unique_ptr<Peer>> waiters;
  for (int i = 0; i < 5; ++i) {
    waiters.push_back(std::make_unique<Peer>(memory));
    waiters.back()->client.pend({0});
  }
  Peer* current = &holder;
  for (const auto& next : waiters) {
    makeHandOverDue(holder.client, 0);
    EXPECT_TRUE(current->client.release({0}));
    EXPECT_EQ(holderOf(memory.word(0).load()), next->slot());
    EXPECT_EQ(takeGrants(next->environment).size(), 1u);
    current = next.get();
  }
}

TEST(Fairness, LetsARunningThreadBargeBeforeThat) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(0));
  Blocking blocking(waiter.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  putHandOverOff(holder.client, 0);
  {
    Barrier barrier("designated: before it tries");
    EXPECT_TRUE(holder.client.release({0}));
    ASSERT_TRUE(barrier.awaitArrival());
    // Until the designated waiter tries, the word is 0, so no thread needs to call the core.
    EXPECT_EQ(memory.word(0).load(), 0u);
    EXPECT_TRUE(holder.client.take(0));
    EXPECT_TRUE(holder.client.giveBack(0));
    EXPECT_TRUE(holder.client.take(0));
  }
  // The waiter tries too late, and waits again in its place.
  ASSERT_TRUE(eventually([&] { return memory.word(0).load() == (holder.slot() | kQueued); }));
  EXPECT_FALSE(blocking.decided());
  makeHandOverDue(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(memory.word(0).load(), waiter.slot());
  EXPECT_EQ(blocking.status(), Status::kGranted);
}

TEST(Fairness, LetsARunningThreadBargePastAThreadThatWantsMoreStripes) {
  SharedMemory memory(3);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(1));
  Blocking blocking(waiter.client, {0, 1, 2});
  ASSERT_TRUE(awaitWaiters(holder.client, 1, 1));
  putHandOverOff(holder.client, 1);
  {
    Barrier barrier("designated: before it tries");
    EXPECT_TRUE(holder.client.release({1}));
    ASSERT_TRUE(barrier.awaitArrival());
    EXPECT_EQ(memory.word(0).load(), waiter.slot());
    EXPECT_EQ(memory.word(1).load(), 0u);
    // While the waiter sleeps, no further stripe is taken for it.
    EXPECT_EQ(memory.word(2).load(), 0u);
    EXPECT_TRUE(holder.client.take(1));
    EXPECT_TRUE(holder.client.giveBack(1));
  }
  EXPECT_EQ(blocking.status(), Status::kGranted);
  for (const std::uint32_t stripe : {0, 1, 2}) EXPECT_EQ(memory.word(stripe).load(), waiter.slot());
}

TEST(Fairness, LetsARunningThreadBargePastAnEventLoopThatWantsMoreStripes) {
  SharedMemory memory(3);
  Peer holder(memory);
  Peer waiter(memory);
  ASSERT_TRUE(holder.client.take(1));
  waiter.client.pend({0, 1, 2});
  putHandOverOff(holder.client, 1);
  EXPECT_TRUE(holder.client.release({1}));
  EXPECT_EQ(memory.word(0).load(), waiter.slot());
  EXPECT_EQ(memory.word(1).load(), 0u);
  EXPECT_EQ(memory.word(2).load(), 0u);
  EXPECT_TRUE(holder.client.take(1));
  EXPECT_TRUE(takeGrants(waiter.environment).empty());
  EXPECT_EQ(memory.word(1).load(), holder.slot() | kQueued);
  // After the barging period, the release hands over its stripe, and the waiter also gets the free stripe after it.
  makeHandOverDue(holder.client, 1);
  EXPECT_TRUE(holder.client.release({1}));
  for (const std::uint32_t stripe : {0, 1, 2}) EXPECT_EQ(memory.word(stripe).load(), waiter.slot());
  EXPECT_EQ(takeGrants(waiter.environment).size(), 1u);
}

TEST(Fairness, PassesTheTurnOnWhenTheChosenWaiterTimesOut) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer chosen(memory);
  Peer next(memory);
  ASSERT_TRUE(holder.client.take(0));
  Barrier barrier("wait: before it times out");
  Blocking first(chosen.client, {0}, {.timeout = 1});
  ASSERT_TRUE(barrier.awaitArrival());
  next.client.pend({0});
  putHandOverOff(holder.client, 0);
  EXPECT_TRUE(holder.client.release({0}));
  EXPECT_EQ(memory.word(0).load(), 0u);
  barrier.open();
  EXPECT_EQ(first.status(), Status::kTimedOut);
  EXPECT_EQ(awaitGrants(next.environment).size(), 1u);
  EXPECT_EQ(memory.word(0).load(), next.slot());
}

TEST(Fairness, PrefersAnAsyncWaiterOfTheReleasingThreadForAWhileOnly) {
  SharedMemory memory(1);
  Peer local(memory);
  Peer remote(memory);
  ASSERT_TRUE(local.client.take(0));
  remote.client.pend({0});
  local.client.pend({0});
  local.client.pend({0});
  putHandOverOff(local.client, 0);
  EXPECT_TRUE(local.client.release({0}));
  EXPECT_EQ(holderOf(memory.word(0).load()), local.slot());
  // The release woke no event loop, because the releasing thread itself checks for grants.
  EXPECT_EQ(local.environment.wakes(), 0);
  EXPECT_EQ(takeGrants(local.environment).size(), 1u);
  makeHandOverDue(local.client, 0);
  EXPECT_TRUE(local.client.release({0}));
  EXPECT_EQ(holderOf(memory.word(0).load()), remote.slot());
  EXPECT_EQ(awaitGrants(remote.environment).size(), 1u);
}

TEST(Fairness, FindsAnAsyncWaiterOfTheReleasingThreadBehindBlockedThreads) {
  SharedMemory memory(1);
  Peer local(memory);
  Peer gone(memory);
  Peer blocked(memory);
  ASSERT_TRUE(local.client.take(0));
  Blocking blocking(blocked.client, {0});
  ASSERT_TRUE(awaitWaiters(local.client, 0, 1));
  const std::uint32_t cancelled = gone.client.pend({0});
  local.client.pend({0});
  EXPECT_TRUE(gone.environment.async().cancel(cancelled));
  putHandOverOff(local.client, 0);
  EXPECT_TRUE(local.client.release({0}));
  EXPECT_EQ(holderOf(memory.word(0).load()), local.slot());
  EXPECT_EQ(takeGrants(local.environment).size(), 1u);
  EXPECT_TRUE(local.client.release({0}));
  EXPECT_EQ(blocking.status(), Status::kGranted);
  EXPECT_TRUE(blocked.client.release({0}));
}

TEST(Fairness, CountsTheAsyncWaitersOfAQueue) {
  StripeQueue queue{};
  Waiter blocked;
  blocked.since = 1;
  std::array<Waiter, 3> async;
  for (Waiter& waiter : async) waiter.async = true;
  queue.pushBack(blocked);
  EXPECT_EQ(queue.asyncs, 0u);
  queue.pushBack(async[0]);
  queue.insertByArrival(async[1]);
  queue.insertByNumber(async[2]);
  EXPECT_EQ(queue.asyncs, 3u);
  EXPECT_EQ(queue.length, 4u);
  for (Waiter* const waiter : {&async[0], &blocked, &async[1], &async[2]}) queue.remove(*waiter);
  EXPECT_EQ(queue.asyncs, 0u);
  EXPECT_EQ(queue.length, 0u);
  EXPECT_EQ(queue.head, nullptr);
}

}  // namespace stripelock::test
