// Deadlocks through one of several threads that share a stripe, and holds that end by themselves.

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr std::size_t kReaders = 3;

// The behaviour of the readers outside the cycle.
enum class Others {
  kRun,
  // The other readers block for a stripe of a running thread.
  kBlock,
};

// Several readers hold stripe 0. A writer that holds stripe 1 waits for stripe 0, and one of the readers waits for
// stripe 1.
void closeTheCycleThrough(std::size_t index, Others others) {
  SharedMemory memory(3);
  Peer running(memory);
  ASSERT_TRUE(running.client.take(2));
  std::vector<std::unique_ptr<Peer>> readers;
  for (std::size_t i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<Peer>(memory));
    ASSERT_TRUE(readers[i]->client.take(0, Mode::kShared));
  }
  Peer writer(memory);
  ASSERT_TRUE(writer.client.take(1));

  Peer& reader = *readers[index];
  std::vector<std::unique_ptr<Blocking>> outside;
  for (const auto& other : readers) {
    if (other.get() == &reader || others == Others::kRun) continue;
    outside.push_back(std::make_unique<Blocking>(other->client, Stripes{2}, Ask{.mode = Mode::kShared}));
  }
  Blocking first(reader.client, {1}, {.timeout = kStuck});
  Blocking second(writer.client, {0}, {.timeout = kStuck});
  EXPECT_TRUE(eventually([&] { return first.decided() || second.decided(); }));
  if (first.decided()) {
    EXPECT_EQ(first.status(), Status::kDeadlock);
    EXPECT_EQ(first.join().cycle.size(), 2u);
    EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  } else {
    EXPECT_EQ(second.status(), Status::kDeadlock);
    EXPECT_EQ(second.join().cycle.size(), 2u);
    EXPECT_TRUE(writer.client.release({1}));
    EXPECT_EQ(first.status(), Status::kGranted);
    EXPECT_TRUE(reader.client.release({0}, Mode::kShared));
  }
  EXPECT_TRUE(running.client.release({2}));
  for (const auto& wait : outside) EXPECT_EQ(wait->status(), Status::kGranted) << "was in no cycle";
  for (const auto& other : readers) {
    if (other.get() != &reader) {
      EXPECT_TRUE(other->client.release({0}, Mode::kShared));
    }
  }
  EXPECT_NE(second.status(), Status::kTimedOut);
}

// The roles of the threads that this test stops or counts at points of the core.
enum class Role { kNone, kGranting, kBlocked, kLooking };

struct Roles {
  static inline thread_local Role mine = Role::kNone;
  static inline std::atomic<bool> told{false};
  static inline std::atomic<bool> givingBack{false};
  static inline std::atomic<bool> sliceEnded{false};
  static inline std::atomic<bool> mayTell{false};
  static inline std::atomic<bool> mayGiveBack{false};
  static inline std::atomic<int> blockedLooks{0};
  static inline std::atomic<int> looks{0};

  Roles() {
    for (auto* flag : {&told, &givingBack, &sliceEnded, &mayTell, &mayGiveBack}) flag->store(false);
    blockedLooks.store(0);
    looks.store(0);
    onSeam(pass);
  }
  ~Roles() {
    mayTell.store(true);
    mayGiveBack.store(true);
    onSeam(nullptr);
  }
  Roles(const Roles&) = delete;
  Roles& operator=(const Roles&) = delete;

  static void await(const std::atomic<bool>& flag) {
    while (!flag.load()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  static void pass(const char* point) {
    const bool looked = std::strcmp(point, "refuse: before the second look") == 0;
    if (mine == Role::kGranting && std::strcmp(point, "grant: before it is told") == 0) {
      told.store(true);
      await(mayTell);
    } else if (mine == Role::kBlocked && looked) {
      blockedLooks.fetch_add(1);
    } else if (mine == Role::kBlocked && told.load() && mayTell.load() && !givingBack.load() &&
               std::strcmp(point, "roll back: before the stripes are left") == 0) {
      givingBack.store(true);
      await(mayGiveBack);
    } else if (mine == Role::kLooking && looked) {
      looks.fetch_add(1);
    }
  }
};

}  // namespace

TEST(Deadlock, IsRefusedThroughAnyOneOfSeveralReaders) {
  const UsualSlices slices;
  for (std::size_t index = 0; index < kReaders; ++index) closeTheCycleThrough(index, Others::kRun);
}

TEST(Deadlock, IsRefusedThroughAnyOneOfSeveralReadersThatAllBlock) {
  const UsualSlices slices;
  for (std::size_t index = 0; index < kReaders; ++index) closeTheCycleThrough(index, Others::kBlock);
}

// A blocked thread was granted the stripe that its async acquisition waited for. The thread gives the stripe back;
// until then, the word names the thread.
TEST(Deadlock, IsNotSeenInWhatABlockedThreadIsGivingBack) {
  const UsualSlices slices;
  // These stripes are in separate shards, so that no thread waits for a stopped thread.
  constexpr std::uint32_t kOther = 100;
  SharedMemory memory(200);
  Peer holder(memory);
  Peer blocked(memory);
  Peer looking(memory);
  ASSERT_TRUE(holder.client.take(0));
  ASSERT_TRUE(looking.client.take(kOther));
  blocked.client.pend({0});
  std::atomic<bool> ended{false};
  Status status{};
  const Roles roles;
  std::thread lookingThread([&] {
    Roles::mine = Role::kLooking;
    status = looking.client.sync({0}, {.timeout = kStuck});
    ended.store(true);
  });
  EXPECT_TRUE(awaitWaiters(holder.client, 0, 2));
  makeHandOverDue(holder.client, 0);
  std::thread granting([&] {
    Roles::mine = Role::kGranting;
    EXPECT_TRUE(holder.client.release({0}));
  });
  EXPECT_TRUE(eventually([] { return Roles::told.load(); }));
  std::thread blockedThread([&] {
    Roles::mine = Role::kBlocked;
    const SyncOutcome outcome =
        blocked.client.acquireSync({kOther}, {.timeout = kStuck}, {.requested = [](void*) {
                                     Roles::sliceEnded.store(true);
                                     return false;
                                   }});
    EXPECT_EQ(outcome.status, Status::kGranted);
  });
  // From now on the thread may enter the wait graph, before it notices the grant.
  EXPECT_TRUE(eventually([] { return Roles::sliceEnded.load(); }));
  Roles::mayTell.store(true);
  EXPECT_TRUE(eventually([] { return Roles::blockedLooks.load() > 0; }));
  EXPECT_TRUE(eventually([] { return Roles::givingBack.load(); }));
  EXPECT_EQ(holderOf(memory.word(0).load()), blocked.slot());
  const int before = Roles::looks.load();
  EXPECT_TRUE(eventually([&] { return ended.load() || Roles::looks.load() >= before + 2; }));
  EXPECT_FALSE(ended.load());
  Roles::mayGiveBack.store(true);
  lookingThread.join();
  EXPECT_EQ(status, Status::kGranted);
  // If the searching thread was refused, this lets the blocked thread end.
  EXPECT_TRUE(looking.client.release({kOther}));
  granting.join();
  blockedThread.join();
}

// A thread blocks for the very stripe that another thread is granting to its async acquisition.
TEST(Deadlock, IsNotSeenByAThreadInAGrantToItselfThatIsHalfMade) {
  SharedMemory memory(1);
  Peer holder(memory);
  Peer peer(memory);
  ASSERT_TRUE(holder.client.take(0));
  const std::uint32_t id = peer.client.pend({0});
  makeHandOverDue(holder.client, 0);
  {
    Barrier barrier("grant: before it is told");
    std::thread releasing([&] { EXPECT_TRUE(holder.client.release({0})); });
    const bool arrived = barrier.awaitArrival();
    EXPECT_EQ(memory.word(0).load(), peer.slot());
    Blocking blocking(peer.client, {0}, {.timeout = kStuck});
    // The thread must not trust the word before the grant is complete. A thread that trusts it decides within this
    // time.
    const Deadline soon = Deadline::after(200);
    while (!blocking.decided() && !soon.passedAt(now())) std::this_thread::yield();
    EXPECT_FALSE(blocking.decided());
    barrier.open();
    releasing.join();
    ASSERT_TRUE(arrived);
    EXPECT_EQ(blocking.status(), Status::kGranted);
  }
  EXPECT_TRUE(peer.client.release({0}));
  const auto grants = takeGrants(peer.environment);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].id, id);
}

// Each thread of a layer waits for both threads of the next layer. So there are 2^kLayers paths.
TEST(Deadlock, IsLookedForOnceAtEachThreadHoweverManyWaysLeadThere) {
  const UsualSlices slices;
  constexpr std::uint32_t kLayers = 26;
  SharedMemory memory(kLayers + 1);
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<std::unique_ptr<Blocking>> waits;
  Peer running(memory);
  ASSERT_TRUE(running.client.take(kLayers));
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    for (int i = 0; i < 2; ++i) {
      peers.push_back(std::make_unique<Peer>(memory));
      ASSERT_TRUE(peers.back()->client.take(layer, Mode::kShared));
    }
  }
  std::atomic<int> looks{0};
  const auto requested = [](void* count) {
    static_cast<std::atomic<int>*>(count)->fetch_add(1);
    return false;
  };
  // The threads of the last layer start first, so that each thread finds the next layer in the graph.
  for (std::uint32_t i = 2 * kLayers; i-- > 0;) {
    const std::uint32_t wanted = i / 2 + 1;
    waits.push_back(std::make_unique<Blocking>(peers[i]->client, Stripes{wanted}, Ask{},
                                               Interrupt{.requested = requested, .data = &looks}));
    EXPECT_TRUE(awaitWaiters(running.client, wanted, 2 - i % 2));
  }
  const int before = looks.load();
  EXPECT_TRUE(eventually([&] { return looks.load() >= before + 10 * static_cast<int>(kLayers); }));
  EXPECT_TRUE(running.client.release({kLayers}));
  for (std::size_t i = 0; i < waits.size(); ++i) {
    EXPECT_EQ(waits[i]->status(), Status::kGranted);
    Peer& peer = *peers[peers.size() - 1 - i];
    const auto layer = static_cast<std::uint32_t>((peers.size() - 1 - i) / 2);
    EXPECT_TRUE(peer.client.release({layer + 1}));
    EXPECT_TRUE(peer.client.release({layer}, Mode::kShared));
  }
}

}  // namespace stripelock::test
