// Functions that retry for a while before a thread goes to sleep.

#pragma once

#include <algorithm>
#include <thread>

#include "core/base/platform.h"

namespace stripelock {

// The number of rounds of spinning. Each is twice as long as the one before; together they take half a microsecond.
inline constexpr int kSpinRounds = 4;
// How many times a thread then yields before it sleeps. With more threads than processors, the holder of the stripe may
// not be running. Yielding to the holder saves two system calls: this thread need not sleep, and the holder need not
// wake it. Modelled after parking_lot (Amanieu d'Antras).
inline constexpr int kYields = 3;

// Calls `attempt` until it returns true or the rounds are used up, at increasing intervals. On a single processor,
// calls `attempt` once.
template <typename Attempt>
bool spin(Attempt attempt) {
  const int rounds = processors() > 1 ? kSpinRounds : 0;
  if (attempt()) return true;
  int pauses = 1;
  for (int round = rounds; round > 0; --round) {
    for (int i = 0; i < pauses; ++i) relax();
    pauses *= 2;
    if (attempt()) return true;
  }
  return false;
}

// Spins before a thread sleeps, because running threads overtake a sleeping thread. The longest spin lasts about as
// long as putting a thread to sleep and waking it. Each thread has one Patience: a failure halves the time that the
// thread spins, and a success doubles it.
class Patience {
 public:
  // Spins as long as `worthwhile` returns true. Returns true if `attempt` succeeded.
  template <typename Attempt, typename Worthwhile>
  bool spin(Attempt attempt, Worthwhile worthwhile) {
    if (processors() == 1) return false;
    for (int i = 0; i < attempts_ && worthwhile(); ++i) {
      for (int pause = 0; pause < kPauses; ++pause) relax();
      if (!attempt()) continue;
      attempts_ = std::min(2 * attempts_, kMostAttempts);
      return true;
    }
    attempts_ = std::max(attempts_ / 2, kLeastAttempts);
    return false;
  }

 private:
  static constexpr int kMostAttempts = 64;
  static constexpr int kLeastAttempts = 4;
  // The number of pauses between two attempts. In these pauses, the holder can access the word undisturbed. On x86-64,
  // a pause takes about 25 ns.
  static constexpr int kPauses = 8;

  int attempts_ = kMostAttempts;
};

// Yields as long as `worthwhile` returns true, at most kYields times. Returns true if `attempt` succeeded.
template <typename Attempt, typename Worthwhile>
bool yieldFor(Attempt attempt, Worthwhile worthwhile) {
  for (int i = 0; i < kYields && worthwhile(); ++i) {
    std::this_thread::yield();
    if (attempt()) return true;
  }
  return false;
}

}  // namespace stripelock
