// Trying for a while before going to sleep.

#pragma once

#include <algorithm>

#include "core/platform.h"

namespace stripelock {

// Rounds of spinning, each twice as long as the one before up to kSpinLimit pauses: a few microseconds in all,
// about what putting a thread to sleep and waking it costs.
inline constexpr int kSpinRounds = 8;
inline constexpr int kSpinLimit = 32;

// Calls `attempt` until it returns true or the time for spinning is over. On a single processor, once.
template <typename Attempt>
bool spin(Attempt attempt) {
  static const int rounds = processors() > 1 ? kSpinRounds : 0;
  if (attempt()) return true;
  int pauses = 1;
  for (int round = rounds; round > 0; --round) {
    for (int i = 0; i < pauses; ++i) relax();
    pauses = std::min(pauses * 2, kSpinLimit);
    if (attempt()) return true;
  }
  return false;
}

}  // namespace stripelock
