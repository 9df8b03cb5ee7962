// Async acquisitions that end without a grant, by their deadline or a cancellation, even while they are being granted.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/async_waits.h"
#include "test/support.h"
#include "test/worlds.h"

namespace stripelock::test {

TEST(AsyncWaits, ExpireAtTheirDeadlineInItsOrder) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(1));
  const std::uint32_t late = world.waiter.client.pend({1}, {.timeout = 40});
  const std::uint32_t never = world.waiter.client.pend({1});
  const std::uint32_t soon = world.waiter.client.pend({0, 1}, {.timeout = 5});
  for (const std::uint32_t id : {soon, late}) {
    const Deadline next = world.waiter.async().nextDeadline();
    ASSERT_FALSE(next.isNever());
    while (!next.passedAt(now())) EXPECT_FALSE(world.waiter.environment.awaitWake(1));
    const auto expired = takeExpired(world.waiter.environment);
    ASSERT_EQ(expired.size(), 1u);
    EXPECT_EQ(expired[0].id, id);
    EXPECT_EQ(expired[0].stripe, 1u);
  }
  EXPECT_TRUE(world.waiter.async().nextDeadline().isNever());
  EXPECT_EQ(world.memory.word(0).load(), 0u);
  EXPECT_EQ(world.memory.cell(kWaitingCell), 1);
  EXPECT_TRUE(world.holder.client.release({1}));
  const auto grants = awaitGrants(world.waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, never);
}

TEST(AsyncWaits, DoNotExpireOnceTheyAreGranted) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  const std::uint32_t id = world.waiter.client.pend({0}, {.timeout = 1});
  makeHandOverDue(world.holder.client, 0);
  EXPECT_TRUE(world.holder.client.release({0}));
  const Deadline deadline = world.waiter.async().nextDeadline();
  while (!deadline.passedAt(now())) std::this_thread::yield();
  EXPECT_TRUE(takeExpired(world.waiter.environment).empty());
  const auto grants = takeGrants(world.waiter.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
  EXPECT_TRUE(world.waiter.async().nextDeadline().isNever());
}

TEST(AsyncWaits, KeepTheirDeadlineWhenAGrantIsTakenBackAfterIt) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  ASSERT_TRUE(world.holder.client.take(1));
  const std::uint32_t granted = world.waiter.client.pend({0}, {.timeout = 1});
  const std::uint32_t other = world.waiter.client.pend({1}, {.timeout = 2});
  makeHandOverDue(world.holder.client, 0);
  EXPECT_TRUE(world.holder.client.release({0}));
  const Deadline last = Deadline::after(2);
  while (!last.passedAt(now())) std::this_thread::yield();
  // The one that was granted has the earlier deadline, but does not hold up this one.
  auto expired = takeExpired(world.waiter.environment);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].id, other);
  world.waiter.environment.participant().block();
  ASSERT_TRUE(world.other.client.take(0));
  world.waiter.environment.participant().unblock();
  expired = takeExpired(world.waiter.environment);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].id, granted);
  EXPECT_TRUE(world.waiter.async().nextDeadline().isNever());
  EXPECT_TRUE(world.other.client.release({0}));
  EXPECT_TRUE(world.holder.client.release({1}));
}

TEST(AsyncWaits, ExpireInOrderHoweverTheyCame) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  std::mt19937_64 random = seeded("ExpireInOrderHoweverTheyCame");
  std::vector<double> timeouts;
  for (int i = 0; i < 200; ++i) timeouts.push_back(0.01 * i);
  std::shuffle(timeouts.begin(), timeouts.end(), random);
  for (const double timeout : timeouts) world.waiter.client.pend({0}, {.timeout = 1 + timeout});
  const Deadline last = Deadline::after(3);
  while (!last.passedAt(now())) std::this_thread::yield();
  Nanoseconds before = 0;
  for (std::size_t i = 0; i < timeouts.size(); ++i) {
    const Nanoseconds next = world.waiter.async().nextDeadline().point();
    EXPECT_GE(next, before);
    before = next;
    AsyncWaits::Expired expired{};
    ASSERT_EQ(world.waiter.async().expire(&expired, 1), 1u);
  }
  EXPECT_TRUE(world.waiter.async().nextDeadline().isNever());
  EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
  EXPECT_EQ(waitersOf(world.holder.client, 0), 0u);
}

TEST(AsyncWaits, AreForgottenWhenCancelledWhileTheyWait) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(2));
  const std::uint32_t id = world.waiter.client.pend({1, 2, 3}, {.timeout = 1000});
  EXPECT_EQ(world.memory.word(1).load(), world.waiter.slot());
  EXPECT_TRUE(world.waiter.async().cancel(id));
  EXPECT_EQ(world.memory.word(1).load(), 0u);
  EXPECT_EQ(world.memory.word(2).load(), world.holder.slot());
  EXPECT_EQ(waitersOf(world.holder.client, 2), 0u);
  EXPECT_TRUE(world.waiter.async().nextDeadline().isNever());
  EXPECT_FALSE(world.waiter.async().cancel(id));
  EXPECT_TRUE(world.holder.client.release({2}));
  EXPECT_FALSE(world.waiter.environment.awaitWake(0));
  EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
}

TEST(AsyncWaits, PassTheirStripesOnWhenCancelledAfterTheGrant) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  const std::uint32_t id = world.waiter.client.pend({0});
  const std::uint32_t next = world.other.client.pend({0});
  makeHandOverDue(world.holder.client, 0);
  EXPECT_TRUE(world.holder.client.release({0}));
  ASSERT_EQ(holderOf(world.memory.word(0).load()), world.waiter.slot());
  EXPECT_TRUE(world.waiter.async().cancel(id));
  EXPECT_FALSE(world.waiter.async().cancel(id));
  EXPECT_TRUE(takeGrants(world.waiter.environment).empty());
  const auto grants = awaitGrants(world.other.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, next);
  EXPECT_EQ(world.memory.word(0).load(), world.other.slot());
}

TEST(AsyncWaits, CannotBeCancelledOnceTheyWereHandedOut) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  const std::uint32_t id = world.waiter.client.pend({0});
  EXPECT_TRUE(world.holder.client.release({0}));
  ASSERT_EQ(takeGrants(world.waiter.environment).size(), 1u);
  EXPECT_FALSE(world.waiter.async().cancel(id));
  EXPECT_EQ(world.memory.word(0).load(), world.waiter.slot());
}

TEST(AsyncWaits, KnowNoIdThatTheyNeverGave) {
  Three world;
  EXPECT_FALSE(world.waiter.async().cancel(0));
  EXPECT_FALSE(world.waiter.async().cancel(0xffffffffu));
}

TEST(AsyncWaits, LetReadersPassWhenAWriterIsCancelled) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0, Mode::kShared));
  const std::uint32_t writer = world.waiter.client.pend({0});
  Blocking reader(world.other.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(world.holder.client, 0, 2));
  EXPECT_TRUE(world.waiter.async().cancel(writer));
  EXPECT_EQ(reader.status(), Status::kGranted);
}

namespace {

// Withdraws an acquisition while another thread is granting it. Exactly one outcome, and nothing is left over.
template <typename Withdraw>
void coincide(double timeout, Withdraw withdraw) {
  Three world;
  std::mt19937 random(20240229);
  for (int round = 0; round < 500; ++round) {
    const Stripes stripes = round % 2 == 0 ? Stripes{1} : Stripes{0, 1, 3};
    ASSERT_TRUE(world.holder.client.take(1));
    const std::uint32_t id = world.waiter.client.pend(stripes, {.timeout = timeout});
    const auto delay = std::chrono::microseconds(random() % 60);
    std::thread releasing([&] {
      std::this_thread::sleep_for(delay);
      EXPECT_TRUE(world.holder.client.release({1}));
    });
    const bool withdrawn = withdraw(world.waiter, id);
    releasing.join();
    if (!withdrawn) {
      const auto grants = takeGrants(world.waiter.environment);
      ASSERT_EQ(grants.size(), 1u);
      ASSERT_EQ(grants[0].id, id);
      ASSERT_TRUE(world.waiter.client.release(stripes));
    }
    ASSERT_TRUE(takeGrants(world.waiter.environment).empty());
    ASSERT_EQ(countHeld(world.holder.client.table()), 0u);
    ASSERT_EQ(waitersOf(world.holder.client, 1), 0u);
    ASSERT_EQ(world.memory.cell(kWaitingCell), 0);
  }
}

}  // namespace

TEST(AsyncWaits, HaveOneOutcomeWhenGrantAndCancellationCoincide) {
  std::mt19937 random(20240301);
  coincide(kForever, [&](Peer& waiter, std::uint32_t id) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60));
    return waiter.async().cancel(id);
  });
}

TEST(AsyncWaits, HaveOneOutcomeWhenGrantAndDeadlineCoincide) {
  coincide(0.1, [](Peer& waiter, std::uint32_t) {
    const Deadline deadline = waiter.async().nextDeadline();
    while (!deadline.passedAt(now())) std::this_thread::yield();
    return !takeExpired(waiter.environment).empty();
  });
}

TEST(AsyncWaits, GiveBackAGrantThatComesInTheMiddleOfACancellation) {
  Three world;
  ASSERT_TRUE(world.holder.client.take(0));
  const std::uint32_t id = world.waiter.client.pend({0, 1});
  Barrier barrier("drop: before withdrawing");
  std::thread cancelling([&] { EXPECT_TRUE(world.waiter.async().cancel(id)); });
  ASSERT_TRUE(barrier.awaitArrival());
  makeHandOverDue(world.holder.client, 0);
  EXPECT_TRUE(world.holder.client.release({0}));
  EXPECT_EQ(world.memory.word(1).load(), world.waiter.slot());
  barrier.open();
  cancelling.join();
  EXPECT_EQ(countHeld(world.holder.client.table()), 0u);
  EXPECT_TRUE(takeGrants(world.waiter.environment).empty());
}

namespace {

// Lets one granting thread find stripe 1 held and then free, and stops it on its way from there to stripe 2.
struct OnTheWay {
  static inline Client* holder = nullptr;
  static inline std::atomic<int> positions{0};
  static inline std::atomic<bool> open{false};

  static void pass(const char* point) {
    if (std::strcmp(point, "proceed: before the next shard") == 0) {
      holder->giveBack(1);
    } else if (std::strcmp(point, "proceed: before the position changes") == 0 &&
               positions.fetch_add(1) == 1) {
      while (!open.load()) std::this_thread::yield();
    }
  }
};

}  // namespace

TEST(AsyncWaits, AreFoundWhenCancelledOnTheWayFromOneQueueToAnother) {
  SharedMemory memory(3);
  Peer holder(memory);
  Peer waiter(memory);
  for (const std::uint32_t stripe : {0u, 1u, 2u}) ASSERT_TRUE(holder.client.take(stripe));
  const std::uint32_t id = waiter.client.pend({0, 1, 2});
  makeHandOverDue(holder.client, 0);
  OnTheWay::holder = &holder.client;
  OnTheWay::positions.store(0);
  OnTheWay::open.store(false);
  onSeam(OnTheWay::pass);
  std::thread releasing([&] { EXPECT_TRUE(holder.client.releaseSlow(0)); });
  ASSERT_TRUE(eventually([] { return OnTheWay::positions.load() == 2; }));
  std::atomic<bool> cancelled{false};
  std::thread cancelling([&] {
    EXPECT_TRUE(waiter.async().cancel(id));
    cancelled.store(true);
  });
  // Long enough to find the waiter in the wrong queue, if that were possible.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(cancelled.load());
  OnTheWay::open.store(true);
  releasing.join();
  cancelling.join();
  onSeam(nullptr);
  EXPECT_EQ(memory.word(0).load(), 0u);
  EXPECT_EQ(memory.word(1).load(), 0u);
  EXPECT_EQ(memory.word(2).load(), holder.slot());
  EXPECT_EQ(waitersOf(holder.client, 2), 0u);
}

}  // namespace stripelock::test
