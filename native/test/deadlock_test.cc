#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "core/sync_wait.h"
#include "test/support.h"

namespace stripelock::test {

namespace {

// From the last thread's call to the refusal: a slice of 5 ms until the thread enters the wait graph.
constexpr double kPromptly = 100;
// The same on a machine so busy that the threads hardly run. Every round must meet this.
constexpr double kLate = 5'000;
// At least one of these rounds must be prompt.
constexpr int kRounds = 5;

// `count` threads, each of which holds one stripe and blocks on the next one's, in as many locks as given.
class Cycle {
 public:
  Cycle(std::vector<SharedMemory*> memories, std::size_t count, Mode mode) : mode_(mode) {
    for (std::size_t i = 0; i < count; ++i) {
      auto thread = std::make_unique<Thread>();
      thread->stripe = static_cast<std::uint32_t>(i);
      for (SharedMemory* memory : memories) {
        thread->clients.push_back(std::make_unique<Client>(thread->environment, *memory));
      }
      EXPECT_TRUE(thread->holding().take(thread->stripe, mode));
      threads_.push_back(std::move(thread));
    }
  }

  void close() {
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      Thread& wanted = *threads_[(i + 1) % threads_.size()];
      Thread& thread = *threads_[i];
      // The lock in which the next thread holds its stripe.
      Client& client = *thread.clients[wanted.stripe % thread.clients.size()];
      thread.wait = std::make_unique<Blocking>(client, Stripes{wanted.stripe});
    }
  }

  // Finds the thread that was refused, checks what it was told, and that the others go on once it has released.
  double resolve() {
    std::size_t refused = threads_.size();
    EXPECT_TRUE(eventually([&] {
      for (std::size_t i = 0; i < threads_.size(); ++i) {
        if (threads_[i]->wait->decided()) refused = i;
      }
      return refused < threads_.size();
    }));
    Thread& first = *threads_[refused];
    const SyncOutcome& outcome = first.wait->join();
    EXPECT_EQ(outcome.status, Status::kDeadlock);
    checkCycle(outcome.cycle, refused);
    // The cycle is broken: each of the others gets its stripe when the one after it is done.
    EXPECT_TRUE(first.holding().release({first.stripe}, mode_));
    for (std::size_t i = 1; i < threads_.size(); ++i) {
      const std::size_t index = (refused + threads_.size() - i) % threads_.size();
      Thread& thread = *threads_[index];
      Thread& next = *threads_[(index + 1) % threads_.size()];
      EXPECT_EQ(thread.wait->status(), Status::kGranted);
      EXPECT_TRUE(thread.clients[next.stripe % thread.clients.size()]->release({next.stripe}));
      EXPECT_TRUE(thread.holding().release({thread.stripe}, mode_));
    }
    return first.wait->milliseconds();
  }

 private:
  struct Thread {
    Environment environment;
    std::vector<std::unique_ptr<Client>> clients;
    std::uint32_t stripe = 0;
    std::unique_ptr<Blocking> wait;

    Client& holding() { return *clients[stripe % clients.size()]; }
  };

  void checkCycle(const std::vector<Blocked>& cycle, std::size_t refused) const {
    ASSERT_EQ(cycle.size(), threads_.size());
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const Thread& thread = *threads_[(refused + i) % threads_.size()];
      EXPECT_EQ(cycle[i].threadId, thread.environment.threadId());
      EXPECT_EQ(cycle[i].stripe, threads_[(refused + i + 1) % threads_.size()]->stripe);
    }
  }

  const Mode mode_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

void expectRefusal(const std::vector<SharedMemory*>& memories, std::size_t count, Mode mode) {
  double quickest = kForever;
  for (int round = 0; round < kRounds; ++round) {
    Cycle cycle(memories, count, mode);
    cycle.close();
    const double took = cycle.resolve();
    quickest = std::min(quickest, took);
    EXPECT_LT(took, kLate);
  }
  EXPECT_LT(quickest, kPromptly);
}

}  // namespace

TEST(Deadlock, OfTwoThreadsIsRefusedToOne) {
  const UsualSlices slices;
  SharedMemory memory(2);
  expectRefusal({&memory}, 2, Mode::kExclusive);
}

TEST(Deadlock, OfThreeThreadsIsRefusedToOne) {
  const UsualSlices slices;
  SharedMemory memory(3);
  expectRefusal({&memory}, 3, Mode::kExclusive);
}

TEST(Deadlock, OfEightThreadsIsRefusedToOne) {
  const UsualSlices slices;
  SharedMemory memory(8);
  expectRefusal({&memory}, 8, Mode::kExclusive);
}

TEST(Deadlock, ThroughSharedHoldsIsRefusedToOne) {
  const UsualSlices slices;
  SharedMemory memory(3);
  expectRefusal({&memory}, 3, Mode::kShared);
}

TEST(Deadlock, AcrossTwoLocksIsRefusedToOne) {
  const UsualSlices slices;
  SharedMemory one(4);
  SharedMemory other(4);
  expectRefusal({&one, &other}, 4, Mode::kExclusive);
}

TEST(Deadlock, ThroughASharedSetThatIsOnlyPartlyTakenIsRefused) {
  const UsualSlices slices;
  SharedMemory memory(2);
  Peer reader(memory);
  Peer writer(memory);
  ASSERT_TRUE(writer.client.take(1));
  // Has taken 0, which is not counted among its holds yet, and waits for 1.
  Blocking both(reader.client, {0, 1}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(writer.client, 1, 1));
  Blocking first(writer.client, {0});
  ASSERT_TRUE(eventually([&] { return both.decided() || first.decided(); }));
  if (both.decided()) {
    EXPECT_EQ(both.status(), Status::kDeadlock);
    EXPECT_EQ(first.status(), Status::kGranted);
  } else {
    EXPECT_EQ(first.status(), Status::kDeadlock);
    EXPECT_TRUE(writer.client.release({1}));
    EXPECT_EQ(both.status(), Status::kGranted);
  }
}

TEST(Deadlock, ThroughASharedReaderBehindAWriterIsRefused) {
  const UsualSlices slices;
  SharedMemory memory(2);
  Peer holder(memory);
  Peer writer(memory);
  Peer reader(memory);
  ASSERT_TRUE(holder.client.take(0, Mode::kShared));
  ASSERT_TRUE(reader.client.take(1));
  Blocking exclusive(writer.client, {0});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 1));
  Blocking shared(reader.client, {0}, {.mode = Mode::kShared});
  ASSERT_TRUE(awaitWaiters(holder.client, 0, 2));
  // Waits for the reader, which waits for the writer, which waits for this thread's shared hold. Any of them may be
  // refused.
  Blocking second(holder.client, {1});
  ASSERT_TRUE(eventually([&] { return exclusive.decided() || shared.decided() || second.decided(); }));
  if (exclusive.decided()) {
    EXPECT_EQ(exclusive.status(), Status::kDeadlock);
    EXPECT_EQ(shared.status(), Status::kGranted);
    EXPECT_TRUE(reader.client.release({1}));
    EXPECT_EQ(second.status(), Status::kGranted);
  } else if (second.decided()) {
    EXPECT_EQ(second.status(), Status::kDeadlock);
    EXPECT_TRUE(holder.client.release({0}, Mode::kShared));
    EXPECT_EQ(exclusive.status(), Status::kGranted);
    EXPECT_TRUE(writer.client.release({0}));
    EXPECT_EQ(shared.status(), Status::kGranted);
  } else {
    EXPECT_EQ(shared.status(), Status::kDeadlock);
    EXPECT_TRUE(reader.client.release({1}));
    EXPECT_EQ(second.status(), Status::kGranted);
    EXPECT_TRUE(holder.client.release({0}, Mode::kShared));
    EXPECT_EQ(exclusive.status(), Status::kGranted);
  }
}

TEST(Deadlock, GivesBackWhatTheRefusedOneHadTaken) {
  const UsualSlices slices;
  SharedMemory memory(4);
  Peer one(memory);
  Peer other(memory);
  ASSERT_TRUE(one.client.take(3));
  ASSERT_TRUE(other.client.take(2));
  Blocking waiting(other.client, {3});
  ASSERT_TRUE(awaitWaiters(one.client, 3, 1));
  Blocking set(one.client, {0, 1, 2});
  ASSERT_TRUE(eventually([&] { return set.decided() || waiting.decided(); }));
  if (set.decided()) {
    EXPECT_EQ(set.status(), Status::kDeadlock);
    EXPECT_EQ(memory.word(0).load(), 0u);
    EXPECT_EQ(memory.word(1).load(), 0u);
    EXPECT_TRUE(one.client.release({3}));
    EXPECT_EQ(waiting.status(), Status::kGranted);
  } else {
    EXPECT_EQ(waiting.status(), Status::kDeadlock);
    EXPECT_TRUE(other.client.release({2}));
    EXPECT_EQ(set.status(), Status::kGranted);
  }
}

}  // namespace stripelock::test
