// Locks and threads with which several tests begin.

#pragma once

#include <atomic>
#include <cstring>

#include <gtest/gtest.h>

#include "core/revocation.h"
#include "test/support.h"

namespace stripelock::test {

// A lock of a few stripes, who holds them, who waits for them, and who comes along.
struct Three {
  SharedMemory memory{4};
  Peer holder{memory};
  Peer waiter{memory};
  Peer other{memory};
};

// `busy` waits for stripes that `holder` has. Its event loop turns only when the test makes it.
struct Idle {
  explicit Idle(std::uint32_t stripes = 3) : memory(stripes) {}

  std::uint32_t word(std::uint32_t stripe = 0) { return memory.word(stripe).load(); }
  void handOver(std::uint32_t stripe = 0) {
    makeHandOverDue(holder.client, stripe);
    EXPECT_TRUE(holder.client.release({stripe}));
  }
  void designate(std::uint32_t stripe = 0) {
    putHandOverOff(holder.client, stripe);
    EXPECT_TRUE(holder.client.release({stripe}));
    EXPECT_TRUE(isDesignated(busy, stripe));
  }
  bool isDesignated(Peer& peer, std::uint32_t stripe = 0) {
    const Lock lock(holder.client.table().shardOf(stripe));
    const Waiter* const waiter = holder.client.table().queueOf(stripe).designated.load();
    return waiter && waiter->owner == &peer.environment.participant();
  }
  bool revoke(std::uint32_t stripe = 0) {
    return revokeIdle(holder.client.table(), stripe, holder.environment.participant(), false);
  }
  void expectNothingLeft() {
    for (std::uint32_t stripe = 0; stripe < memory.stripes(); ++stripe) {
      EXPECT_EQ(word(stripe), 0u) << stripe;
      EXPECT_EQ(waitersOf(holder.client, stripe), 0u) << stripe;
    }
    EXPECT_EQ(memory.cell(kWaitingCell), 0);
    EXPECT_EQ(busy.environment.participant().undelivered(), 0u);
  }

  SharedMemory memory;
  Peer holder{memory};
  Peer busy{memory};
  Peer next{memory};
  Peer last{memory};
};

// Nothing is held when a test begins.
class Revocation : public testing::Test, protected Idle {};

// Counts how often threads pass one point, and sets what they do there the first time.
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

// `holder` has the first stripe of a lock.
class HeldStripe : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(holder.client.take(0)); }

  Table& table() { return holder.client.table(); }
  std::uint32_t word(std::uint32_t stripe = 0) { return memory.word(stripe).load(); }
  bool isDesignated(const Peer& peer) {
    const Lock lock(table().shardOf(0));
    const Waiter* const waiter = table().queueOf(0).designated.load();
    return waiter && waiter->owner->slot() == peer.slot();
  }
  // The next release hands the stripe over.
  void handOver() {
    makeHandOverDue(holder.client, 0);
    EXPECT_TRUE(holder.client.release({0}));
  }
  // The next release designates a waiter.
  void designate() {
    putHandOverOff(holder.client, 0);
    EXPECT_TRUE(holder.client.release({0}));
  }

  SharedMemory memory{2};
  Peer holder{memory};
};

class Exact : public HeldStripe {};

}  // namespace stripelock::test
