// Wakes a blocked thread when a file descriptor of its host stirs, that is, becomes readable. Node tells the event
// loop of a thread when that thread must end, and on Linux and macOS an event loop is such a descriptor. So the thread
// does not have to poll often.
//
// One thread of the process waits for all descriptors. It starts with the first watch and ends with the process. It
// only wakes the thread that must look: it takes no lock and calls nothing of the host.
//
// It reports the change, not the state: an event loop with unread messages is readable for as long as its thread is
// blocked, and that must cost nothing. If a descriptor stirs again and again, its thread is woken once per kQuiet.

#pragma once

#include "core/platform.h"

namespace stripelock {

class DescriptorWatch {
 public:
  // A late wake may come after stop(). So the watch and the parker must live forever, as those of participants do.
  explicit DescriptorWatch(Parker& parker) : parker_(parker) {}
  DescriptorWatch(const DescriptorWatch&) = delete;
  DescriptorWatch& operator=(const DescriptorWatch&) = delete;

  // How long a descriptor is not reported again after it has stirred.
  static constexpr Nanoseconds kQuiet = 5'000'000;

  // ── by the thread that is to be woken ──

  // False if the descriptor cannot be watched. One that is already readable stirs at once, so no earlier event is
  // missed.
  bool start(int descriptor);
  // Call it before the descriptor is closed. Does nothing if nothing is watched.
  void stop();
  bool active() const { return descriptor_ >= 0; }
  // Whether it has stirred since the last call.
  bool takeStirred() { return stirred_.load() && stirred_.exchange(false); }

  // ── by the thread that waits for all ──

  // True: less than kQuiet after the last time.
  bool stir(Nanoseconds time) {
    const bool again = time - stirredAt_ < kQuiet;
    stirredAt_ = time;
    stirred_.store(true);
    parker_.unpark();
    return again;
  }

 private:
  Parker& parker_;
  int descriptor_ = -1;
  std::atomic<bool> stirred_{false};
  Nanoseconds stirredAt_ = -kQuiet;
};

}  // namespace stripelock
