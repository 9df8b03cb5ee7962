// Trying for a while before going to sleep.

#pragma once

#include <thread>

#include "core/platform.h"

namespace stripelock {

// Rounds of spinning, each twice as long as the one before: half a microsecond in all.
inline constexpr int kSpinRounds = 4;
// How often a thread then lets others run before it sleeps: where there are more threads than processors, who holds the
// stripe may be one that is not running. To yield to it costs neither of the two a call to sleep or to wake.
// After parking_lot (Amanieu d'Antras).
inline constexpr int kYields = 3;

// Calls `attempt` until it returns true or the time for spinning is over. On a single processor, once.
template <typename Attempt>
bool spin(Attempt attempt) {
  static const int rounds = processors() > 1 ? kSpinRounds : 0;
  if (attempt()) return true;
  int pauses = 1;
  for (int round = rounds; round > 0; --round) {
    for (int i = 0; i < pauses; ++i) relax();
    pauses *= 2;
    if (attempt()) return true;
  }
  return false;
}

// Yields for as long as `worthwhile` is true, kYields times at most. True when `attempt` is.
template <typename Attempt, typename Worthwhile>
bool yieldFor(Attempt attempt, Worthwhile worthwhile) {
  for (int i = 0; i < kYields && worthwhile(); ++i) {
    std::this_thread::yield();
    if (attempt()) return true;
  }
  return false;
}

}  // namespace stripelock
