// What differs between operating systems: blocking a thread, keeping this module loaded, and the clock that counts
// while the machine is suspended. Everything else is standard C++.
//
// STRIPELOCK_PORTABLE_PARK, and any system without a futex, uses a mutex and a condition variable.

#pragma once

#include "core/sync.h"

#if !defined(STRIPELOCK_PORTABLE_PARK) && !defined(__linux__) && !defined(_WIN32)
#define STRIPELOCK_PORTABLE_PARK
#endif

#ifdef STRIPELOCK_PORTABLE_PARK
#include <condition_variable>
#endif

namespace stripelock {

// A binary semaphore for one thread: unpark() leaves a permit, park() takes it or waits for it. A permit left
// over from earlier makes park() return at once, so the caller must check again what it waits for.
class Parker {
 public:
  // True: a permit was taken. False: the deadline passed.
  bool park(Deadline deadline);
  // From any thread.
  void unpark();

 private:
#ifdef STRIPELOCK_PORTABLE_PARK
  Mutex mutex_;
  std::condition_variable permitted_;
  bool permit_ = false;
#else
  Word permit_{0};
#endif
};

// Threads that can run at the same time, at least 1. Spinning for another thread is pointless on one.
unsigned processors();

// Nanoseconds on a clock that never goes back, and that counts while the machine is suspended if the platform has such a
// clock: CLOCK_BOOTTIME, macOS's continuous time, Windows' interrupt time. Else the steady clock. All threads of the
// process read the same clock.
Nanoseconds elapsed();

// Keeps this code loaded until the process ends: Node unloads an addon with the last worker that used it, and the
// addon's queues and slots must outlive that worker.
void pinModule();

}  // namespace stripelock
