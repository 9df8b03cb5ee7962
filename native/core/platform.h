// What differs between operating systems: blocking a thread, and keeping this module loaded. Everything else
// is standard C++.
//
// With STRIPELOCK_PORTABLE_PARK, or on a system without a futex, a mutex and a condition variable serve.

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
// over from earlier makes park() return at once, so its caller must look again at what it waits for.
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

// Keeps the code that is running from being unloaded for as long as the process lives: Node unloads an addon
// with the last worker that used it, and its queues and slots must outlive that.
void pinModule();

}  // namespace stripelock
