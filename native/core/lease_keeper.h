// Whether the thread that keeps leases still lives. The thread and the leases that it keeps share one keeper, so a lease
// can ask whenever somebody looks at it, and no timer or thread is needed to extend it.

#pragma once

#include "core/sync.h"

namespace stripelock {

class LeaseKeeper {
 public:
  static constexpr Nanoseconds kLives = std::numeric_limits<Nanoseconds>::max();

  // The thread itself calls it, once, at its end. Nothing is extended by its being alive after this returns.
  void end() { endedAt_.store(now()); }
  // From any thread: when it ended, on the steady clock, or kLives.
  Nanoseconds endedAt() const { return endedAt_.load(); }

 private:
  std::atomic<Nanoseconds> endedAt_{kLives};
};

}  // namespace stripelock
