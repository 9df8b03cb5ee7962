// A program can overwrite the memory of the words. The core may then lock wrongly, but it must not crash, or wait
// beyond a deadline.

#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr std::array<std::uint32_t, 14> kStrange{kQueued,
                                                 kAbandoned,
                                                 kQueued | kAbandoned,
                                                 kShared,
                                                 kShared | kQueued,
                                                 kShared | kAbandoned,
                                                 kShared | kHolderMask,
                                                 kShared + kHolderMask - 1,
                                                 kHolderMask,
                                                 kMaxSlots,
                                                 kMaxSlots + 1,
                                                 kMaxSlots | kQueued,
                                                 0x7fffffffu,
                                                 0xffffffffu};

}  // namespace

TEST(Tampering, NeitherCrashesNorHangsAnyOperation) {
  SharedMemory memory(2);
  for (const std::uint32_t strange : kStrange) {
    for (const Mode mode : kEachMode) {
      Peer peer(memory);
      Peer other(memory);
      memory.word(0).store(strange);
      memory.word(1).store(0);
      other.client.acquire({0}, {.timeout = 1});
      peer.client.sync({0, 1}, {.mode = mode, .timeout = 2});
      peer.client.release({0, 1}, mode);
      peer.client.acquire({0, 1}, {.mode = mode, .timeout = 0});
      peer.client.acquire({0, 1}, {.mode = mode, .timeout = 1e6});
      inspect(peer.client.table());
      holdersOf(peer.client.table(), 0);
      countHeld(peer.client.table());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      takeExpired(other.environment);
      takeGrants(peer.environment);
      memory.word(0).store(strange);
    }
  }
}

TEST(Tampering, DoesNotOverflowTheCountOfReaders) {
  SharedMemory memory(1);
  Peer peer(memory);
  memory.word(0).store(kShared | kHolderMask);
  EXPECT_EQ(peer.client.sync({0}, {.mode = Mode::kShared, .timeout = 1, .fast = false}), Status::kTimedOut);
  EXPECT_EQ(holderOf(memory.word(0).load()), kHolderMask);
  EXPECT_TRUE(countsHolds(memory.word(0).load()));
}

TEST(Tampering, RefusesTheReleaseOfAStripeThatWasFreedBehindItsBack) {
  SharedMemory memory(1);
  Peer peer(memory);
  for (const Mode mode : kEachMode) {
    ASSERT_TRUE(peer.client.take(0, mode));
    memory.word(0).store(0);
    EXPECT_FALSE(peer.client.release({0}, mode));
    EXPECT_EQ(memory.word(0).load(), 0u);
  }
}

TEST(Tampering, LeavesAlienHoldersAloneWhenAThreadEnds) {
  SharedMemory memory(2);
  {
    Peer peer(memory);
    ASSERT_TRUE(peer.client.take(0, Mode::kShared));
    memory.word(0).store(kMaxSlots);
    memory.word(1).store(kShared + 5);
  }
  EXPECT_EQ(memory.word(0).load(), kMaxSlots);
  EXPECT_EQ(memory.word(1).load(), kShared + 5);
  EXPECT_EQ(memory.cell(kAbandonedCell), 0);
}

TEST(Tampering, EndsAtTheDeadlineWhileWordsAreScribbledOn) {
  SharedMemory memory(3);
  std::atomic<bool> done{false};
  std::thread scribbler([&] {
    std::mt19937 random(7);
    while (!done.load()) {
      const std::uint32_t stripe = random() % 3;
      switch (random() % 4) {
        case 0:
          memory.word(stripe).store(kStrange[random() % kStrange.size()]);
          break;
        case 1:
          memory.word(stripe).store(static_cast<std::uint32_t>(random()));
          break;
        case 2:
          memory.word(stripe).store(random() % 6);
          break;
        default:
          memory.word(stripe).store(0);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
    }
  });
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int life = 0; life < 40; ++life) {
        Peer peer(memory);
        for (int round = 0; round < 15; ++round) {
          const Stripes stripes = random() % 2 == 0 ? Stripes{0, 1, 2} : Stripes{1};
          const Ask ask{.mode = sharedIf(random() % 2 == 0),
                        .timeout = 0.01 * (random() % 100),
                        .fast = random() % 2 == 0};
          if (peer.client.sync(stripes, ask) == Status::kGranted) peer.client.release(stripes, ask.mode);
          peer.client.acquire(stripes, ask);
          takeGrants(peer.environment);
          takeExpired(peer.environment);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done.store(true);
  scribbler.join();
  EXPECT_EQ(memory.cell(kWaitingCell), 0);
}

}  // namespace stripelock::test
