// A lock with permits, and threads that use it.

#pragma once

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

inline constexpr Ask kPermit{.mode = Mode::kShared};
inline constexpr Ask kPermitAtOnce{.mode = Mode::kShared, .timeout = 0};
// Through the core, whatever the fast path could do.
inline constexpr Ask kPermitOfTheCore{.mode = Mode::kShared, .timeout = 0, .fast = false};

struct PermitPeer : Peer {
  PermitPeer(SharedMemory& memory, std::uint32_t limit) : Peer(memory, false, limit) {}

  bool takes(std::uint32_t stripe, Ask ask = kPermitAtOnce) {
    return client.sync({stripe}, ask) == Status::kGranted;
  }
  // Whether it is told of a death.
  bool isTold(std::uint32_t stripe) {
    const SyncOutcome outcome = client.acquireSync({stripe}, kPermitAtOnce);
    EXPECT_EQ(outcome.status, Status::kGranted);
    return outcome.abandoned;
  }
  bool release(std::uint32_t stripe) { return client.release({stripe}, Mode::kShared); }
};

// Three permits of each stripe.
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
