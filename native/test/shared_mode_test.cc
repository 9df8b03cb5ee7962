#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

TEST(SharedMode, LetsReadersInTogetherAndKeepsAWriterOut) {
  SharedMemory memory(1);
  Peer one(memory);
  Peer other(memory);
  Peer writer(memory);
  EXPECT_EQ(one.client.sync({0}, {.mode = Mode::kShared, .fast = false}), Status::kGranted);
  EXPECT_EQ(other.client.sync({0}, {.mode = Mode::kShared, .fast = false}), Status::kGranted);
  EXPECT_EQ(memory.word(0).load(), kShared + 2);
  EXPECT_EQ(writer.client.sync({0}, {.timeout = 1}), Status::kTimedOut);
  EXPECT_TRUE(one.client.release({0}, Mode::kShared));
  EXPECT_EQ(writer.client.sync({0}, {.timeout = 0}), Status::kTimedOut);
  EXPECT_TRUE(other.client.release({0}, Mode::kShared));
  EXPECT_EQ(writer.client.sync({0}, {.timeout = 0}), Status::kGranted);
  EXPECT_EQ(one.client.sync({0}, {.mode = Mode::kShared, .timeout = 1}), Status::kTimedOut);
}

TEST(SharedMode, LetsTheWriterInWithTheLastReader) {
  SharedMemory memory(1);
  Peer one(memory);
  Peer other(memory);
  Peer writer(memory);
  ASSERT_TRUE(one.client.take(0, Mode::kShared));
  ASSERT_TRUE(other.client.take(0, Mode::kShared));
  writer.client.pend({0});
  EXPECT_EQ(memory.word(0).load(), (kShared + 2) | kQueued);
  // Not the last: no need to call the core.
  EXPECT_TRUE(one.client.giveBack(0, Mode::kShared));
  EXPECT_FALSE(writer.async().hasReady());
  EXPECT_FALSE(other.client.giveBack(0, Mode::kShared));
  EXPECT_TRUE(other.client.releaseSlow(0, Mode::kShared));
  EXPECT_EQ(awaitGrants(writer.environment).size(), 1u);
}

TEST(SharedMode, DoesNotLetNewReadersPassAWaitingWriter) {
  SharedMemory memory(1);
  Peer reader(memory);
  Peer late(memory);
  Peer writer(memory);
  ASSERT_TRUE(reader.client.take(0, Mode::kShared));
  const std::uint32_t waiting = writer.client.pend({0});
  EXPECT_FALSE(late.client.take(0, Mode::kShared));
  EXPECT_EQ(late.client.sync({0}, {.mode = Mode::kShared, .timeout = 1}), Status::kTimedOut);
  EXPECT_EQ(late.client.acquire({0}, {.mode = Mode::kShared, .timeout = 0}).status, AsyncStart::kTimedOut);
  const std::uint32_t pending = late.client.pend({0}, {.mode = Mode::kShared});
  // A writer that is gone blocks nobody.
  EXPECT_TRUE(writer.async().cancel(waiting));
  const auto grants = awaitGrants(late.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, pending);
  EXPECT_EQ(memory.word(0).load(), kShared + 2);
}

TEST(SharedMode, LetsReadersBehindAWriterInAsSoonAsItTimesOut) {
  SharedMemory memory(1);
  Peer reader(memory);
  Peer late(memory);
  Peer writer(memory);
  ASSERT_TRUE(reader.client.take(0, Mode::kShared));
  Blocking exclusive(writer.client, {0}, {.timeout = 50});
  ASSERT_TRUE(awaitWaiters(reader.client, 0, 1));
  Blocking shared(late.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(reader.client, 0, 2));
  EXPECT_EQ(exclusive.status(), Status::kTimedOut);
  EXPECT_EQ(shared.status(), Status::kGranted);
  EXPECT_EQ(memory.word(0).load(), kShared + 2);
}

TEST(SharedMode, LetsAllReadersUpToTheNextWriterInTogether) {
  SharedMemory memory(1);
  Peer writer(memory);
  Peer peer(memory);
  ASSERT_TRUE(writer.client.take(0));
  const std::uint32_t first = peer.client.pend({0}, {.mode = Mode::kShared});
  const std::uint32_t second = peer.client.pend({0}, {.mode = Mode::kShared});
  const std::uint32_t exclusive = peer.client.pend({0});
  const std::uint32_t third = peer.client.pend({0}, {.mode = Mode::kShared});
  EXPECT_TRUE(writer.client.release({0}));
  auto grants = awaitGrants(peer.environment);
  ASSERT_EQ(grants.size(), 2u);
  EXPECT_EQ(grants[0].id, first);
  EXPECT_EQ(grants[1].id, second);
  EXPECT_EQ(memory.word(0).load(), (kShared + 2) | kQueued);
  EXPECT_TRUE(peer.client.release({0}, Mode::kShared));
  EXPECT_TRUE(peer.client.release({0}, Mode::kShared));
  grants = takeGrants(peer.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, exclusive);
  EXPECT_EQ(memory.word(0).load(), peer.slot() | kQueued);
  EXPECT_TRUE(peer.client.release({0}));
  grants = takeGrants(peer.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, third);
  EXPECT_EQ(memory.word(0).load(), kShared + 1);
}

TEST(SharedMode, LetsNoReaderOfABlockedThreadInWithTheOthers) {
  SharedMemory memory(1);
  Peer writer(memory);
  Peer reader(memory);
  Peer blocked(memory);
  ASSERT_TRUE(writer.client.take(0));
  reader.client.pend({0}, {.mode = Mode::kShared});
  blocked.client.pend({0}, {.mode = Mode::kShared});
  blocked.environment.participant().block();
  makeHandOverDue(writer.client, 0);
  EXPECT_TRUE(writer.client.release({0}));
  EXPECT_EQ(memory.word(0).load(), kShared + 1);
  blocked.environment.participant().unblock();
  EXPECT_EQ(memory.word(0).load(), kShared + 2);
  EXPECT_EQ(takeGrants(blocked.environment).size(), 1u);
}

namespace {

// Overlapping readers. Without a rule against it the stripe would never be free.
class ReaderStream {
 public:
  explicit ReaderStream(SharedMemory& memory) {
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this, &memory] {
        Peer peer(memory);
        while (!done_.load()) {
          ASSERT_EQ(peer.client.sync({0}, {.mode = Mode::kShared}), Status::kGranted);
          std::this_thread::sleep_for(std::chrono::microseconds(100));
          ASSERT_TRUE(peer.client.release({0}, Mode::kShared));
        }
      });
    }
  }
  ~ReaderStream() {
    done_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

}  // namespace

TEST(SharedMode, DoesNotStarveAWriterByAStreamOfReaders) {
  SharedMemory memory(1);
  Peer writer(memory);
  const ReaderStream readers(memory);
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(writer.client.sync({0}, {.timeout = kStuck}), Status::kGranted);
    ASSERT_TRUE(writer.client.release({0}));
  }
}

TEST(SharedMode, DoesNotStarveAReaderByAStreamOfWriters) {
  SharedMemory memory(1);
  Peer reader(memory);
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i) {
    writers.emplace_back([&] {
      Peer peer(memory);
      while (!done.load()) {
        ASSERT_EQ(peer.client.sync({0}), Status::kGranted);
        ASSERT_TRUE(peer.client.release({0}));
      }
    });
  }
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(reader.client.sync({0}, {.mode = Mode::kShared, .timeout = kStuck}), Status::kGranted);
    ASSERT_TRUE(reader.client.release({0}, Mode::kShared));
  }
  done.store(true);
  for (std::thread& writer : writers) writer.join();
}

TEST(SharedMode, ShowsReadersNothingHalfWritten) {
  SharedMemory memory(1);
  int first = 0;
  int second = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const bool reads = i % 2 == 0;
      const Mode mode = sharedIf(reads);
      Peer peer(memory);
      for (int round = 0; round < 2000; ++round) {
        ASSERT_EQ(peer.client.sync({0}, {.mode = mode, .fast = round % 3 != 0}), Status::kGranted);
        if (reads) {
          ASSERT_EQ(first, second);
        } else {
          ++first;
          ++second;
        }
        ASSERT_TRUE(peer.client.release({0}, mode));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first, 2 * 2000);
  EXPECT_EQ(memory.word(0).load(), 0u);
}

}  // namespace stripelock::test
