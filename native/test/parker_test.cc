#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

TEST(Parker, TakesAPermitThatWasLeftEarlier) {
  Parker parker;
  parker.unpark();
  EXPECT_TRUE(parker.park(Deadline::never()));
}

TEST(Parker, KeepsOnePermitAtMost) {
  Parker parker;
  for (int i = 0; i < 3; ++i) parker.unpark();
  EXPECT_TRUE(parker.park(Deadline::never()));
  EXPECT_FALSE(parker.park(Deadline::after(1)));
}

TEST(Parker, GivesUpAtTheDeadlineAndNotBefore) {
  Parker parker;
  const Deadline deadline = Deadline::after(20);
  EXPECT_FALSE(parker.park(deadline));
  EXPECT_TRUE(deadline.passedAt(now()));
}

TEST(Parker, PrefersAPermitToADeadlineThatHasPassed) {
  Parker parker;
  parker.unpark();
  EXPECT_TRUE(parker.park(Deadline::at(0)));
  EXPECT_FALSE(parker.park(Deadline::at(0)));
}

TEST(Parker, IsWokenByAnotherThread) {
  Parker parker;
  std::atomic<bool> woken{false};
  std::thread sleeper([&] {
    EXPECT_TRUE(parker.park(Deadline::never()));
    woken.store(true);
  });
  EXPECT_FALSE(woken.load());
  parker.unpark();
  sleeper.join();
}

TEST(Parker, LosesNoPermitOfMany) {
  // Each permit answers one round, so a lost permit would stop both threads forever.
  Parker there;
  Parker back;
  constexpr int kRounds = 5000;
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_TRUE(there.park(Deadline::after(kStuck)));
      back.unpark();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    there.unpark();
    EXPECT_TRUE(back.park(Deadline::after(kStuck)));
  }
  other.join();
}

TEST(Parker, IsWokenWhenSeveralThreadsUnparkAtOnce) {
  Parker parker;
  std::atomic<int> left{4 * 500};
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        left.fetch_sub(1);
        parker.unpark();
      }
    });
  }
  // The thread that counts last then leaves a permit.
  while (left.load() > 0) EXPECT_TRUE(parker.park(Deadline::after(kStuck)));
  for (std::thread& other : others) other.join();
}

// Without a futex, the neighbours share a condition variable, so their threads are woken together.
TEST(Parker, IsNotWokenByAPermitOfItsNeighbour) {
  alignas(64) std::array<Parker, 2> parkers;
  std::atomic<bool> woken{false};
  std::thread sleeper([&] {
    EXPECT_TRUE(parkers[0].park(Deadline::after(kStuck)));
    woken.store(true);
  });
  Parker answered;
  std::thread neighbour([&] {
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(parkers[1].park(Deadline::after(kStuck)));
      answered.unpark();
    }
  });
  for (int i = 0; i < 1000; ++i) {
    parkers[1].unpark();
    EXPECT_TRUE(answered.park(Deadline::after(kStuck)));
  }
  neighbour.join();
  EXPECT_FALSE(woken.load());
  parkers[0].unpark();
  sleeper.join();
}

TEST(Parker, TellsAPermitFromADeadlineWhenBothCoincide) {
  Parker parker;
  std::thread other;
  for (int round = 0; round < 300; ++round) {
    other = std::thread([&] { parker.unpark(); });
    const bool permitted = parker.park(Deadline::after(0.05));
    other.join();
    // Either the first call took the permit, or the permit is still there.
    EXPECT_NE(permitted, parker.park(Deadline::at(0)));
  }
}

TEST(Deadline, NeverComesForWhatTheClockDoesNotReach) {
  EXPECT_TRUE(Deadline::after(kForever).isNever());
  EXPECT_TRUE(Deadline::after(1e300).isNever());
  EXPECT_TRUE(Deadline::after(std::numeric_limits<double>::quiet_NaN()).isNever());
  EXPECT_FALSE(Deadline::after(2147483648.0).isNever());
  EXPECT_FALSE(Deadline::after(2147483648.0).passedAt(now() + 2'147'483'000'000'000));
}

TEST(Deadline, RoundsUpSoThatItIsNeverEarly) {
  const Nanoseconds start = now();
  EXPECT_GE(Deadline::after(0.0000001).point(), start + 1);
  EXPECT_GE(Deadline::after(1.0000001).point(), start + 1'000'001);
}

}  // namespace stripelock::test
