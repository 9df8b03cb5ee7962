// Initial states of locks and threads that several tests use.

#pragma once

#include <atomic>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "core/table/revocation.h"
#include "test/support.h"

namespace stripelock::test {

// A lock of a few stripes, with a holder, a waiter, and a later thread.
struct Three {
  SharedMemory memory{4};
  Peer holder{memory};
  Peer waiter{memory};
  Peer other{memory};
};

// `holder` holds stripes. A test decides whether a release hands over or designates.
struct Holding {
  explicit Holding(std::uint32_t stripes) : memory(stripes) {}

  Table& table() { return holder.client.table(); }
  std::uint32_t word(std::uint32_t stripe = 0) { return memory.word(stripe).load(); }
  bool isDesignated(const Peer& peer, std::uint32_t stripe = 0) {
    const Lock lock(table().shardOf(stripe));
    const Waiter* const waiter = table().queueOf(stripe).designated.load();
    return waiter && waiter->owner->slot() == peer.slot();
  }
  // Releases the stripe. handOver() hands it to the first waiter; designate() frees it and designates that waiter.
  void handOver(std::uint32_t stripe = 0) {
    makeHandOverDue(holder.client, stripe);
    EXPECT_TRUE(holder.client.release({stripe}));
  }
  void designate(std::uint32_t stripe = 0) {
    putHandOverOff(holder.client, stripe);
    EXPECT_TRUE(holder.client.release({stripe}));
  }

  SharedMemory memory;
  Peer holder{memory};
};

// `busy` waits for stripes that `holder` holds. Its event loop runs only when the test runs it.
struct Idle : Holding {
  explicit Idle(std::uint32_t stripes = 3) : Holding(stripes) {}

  void designate(std::uint32_t stripe = 0) {
    Holding::designate(stripe);
    EXPECT_TRUE(isDesignated(busy, stripe));
  }
  bool revoke(std::uint32_t stripe = 0) {
    return revokeIdle(table(), stripe, holder.environment.participant(), false);
  }
  void expectNothingLeft() {
    for (std::uint32_t stripe = 0; stripe < memory.stripes(); ++stripe) {
      EXPECT_EQ(word(stripe), 0u) << stripe;
      EXPECT_EQ(waitersOf(holder.client, stripe), 0u) << stripe;
    }
    EXPECT_EQ(memory.cell(kWaitingCell), 0);
    EXPECT_EQ(busy.environment.participant().undelivered(), 0u);
  }

  Peer busy{memory};
  Peer next{memory};
  Peer last{memory};
};

// When a test begins, no stripe is held.
class Revocation : public testing::Test, protected Idle {};

// Counts how often threads pass one point of the core. An action can run at the first pass.
struct Passes {
  static inline const char* counted = nullptr;
  static inline std::atomic<int> count{0};
  static inline Client* gives = nullptr;

  explicit Passes(const char* point, Client* giving = nullptr) {
    counted = point;
    gives = giving;
    count.store(0);
    onSeam([](const char* passed) {
      if (std::strcmp(passed, counted) == 0 && count.fetch_add(1) == 0 && gives) gives->giveBack(0);
    });
  }
  ~Passes() { onSeam(nullptr); }
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;
};

// `holder` holds the first stripe of a lock.
class HeldStripe : public testing::Test, protected Holding {
 protected:
  HeldStripe() : Holding(2) {}
  void SetUp() override { ASSERT_TRUE(holder.client.take(0)); }
};

class Exact : public HeldStripe {};

// An environment that uses one lock on exact keys.
struct ExactPeer : Peer {
  explicit ExactPeer(SharedMemory& memory) : Peer(memory, true) {}
  KeyPins& pins() { return *client.membership().pins(); }
  std::uint32_t pin(const std::string& key) { return pins().pin(KeyView(key)).stripe; }
  // Returns whether the stripe is still pinned.
  bool unpin(std::uint32_t stripe) {
    auto number = static_cast<std::int32_t>(stripe);
    return pins().unpin(&number, 1) == 1;
  }
  KeyTable& keys() { return *client.table().keys(); }
};

inline constexpr Ask kPermit{.mode = Mode::kShared};
inline constexpr Ask kPermitAtOnce{.mode = Mode::kShared, .timeout = 0};
// Makes one attempt to take a permit, through the core and never by the fast path.
inline constexpr Ask kPermitOfTheCore{.mode = Mode::kShared, .timeout = 0, .fast = false};

struct PermitPeer : Peer {
  PermitPeer(SharedMemory& memory, std::uint32_t limit) : Peer(memory, false, limit) {}

  bool takes(std::uint32_t stripe, Ask ask = kPermitAtOnce) {
    return client.sync({stripe}, ask) == Status::kGranted;
  }
  // Takes a permit. Returns whether this holder sees a death.
  bool isTold(std::uint32_t stripe) {
    const SyncOutcome outcome = client.acquireSync({stripe}, kPermitAtOnce);
    EXPECT_EQ(outcome.status, Status::kGranted);
    return outcome.abandoned;
  }
  bool release(std::uint32_t stripe) { return client.release({stripe}, Mode::kShared); }
};

// Each stripe has three permits.
class Permits : public testing::Test {
 protected:
  std::uint32_t word(std::uint32_t stripe = 0) { return memory.word(stripe).load(); }
  Table& table() { return one.client.table(); }

  SharedMemory memory{3};
  PermitPeer one{memory, 3};
  PermitPeer two{memory, 3};
  PermitPeer late{memory, 3};
};

}  // namespace stripelock::test
