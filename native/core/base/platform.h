// The parts that differ between operating systems: blocking a thread, the clock that also counts while the machine is
// suspended, large zeroed memory, keeping this module loaded, and detecting the sender of a signal.
//
// With STRIPELOCK_PORTABLE_PARK, and on any system without a futex, threads sleep on condition variables.

#pragma once

#include <cstddef>

#include "core/base/sync.h"

namespace stripelock {

// Sleeps while the word is `value`: until a thread of this process changes the word and wakes the sleepers, or until
// the deadline passes. Never times out before the deadline, but may return early for other reasons.
void sleepOn(Word& word, std::uint32_t value, Deadline deadline);
// Call these after changing the word. They do not access the word, so its memory may already be freed.
void wakeOne(const Word& word);
void wakeAll(const Word& word);

// An object that a thread can sleep on in place of its parker.
class Wakeable {
 public:
  virtual void wake() = 0;

 protected:
  ~Wakeable() = default;
};

// A binary semaphore for one thread: unpark() leaves a permit, and park() takes the permit or waits for one. An old
// permit makes park() return at once, so the caller must check its condition again.
class Parker {
 public:
  // True: a permit was taken. False: the deadline passed.
  bool park(Deadline deadline);
  // Any thread may call it.
  void unpark();

  // Call it before the thread sleeps on `target` instead of in park(). From then on, unpark() wakes the target. Returns
  // false if there was a permit, which the call has taken; the thread must then not sleep.
  bool redirect(Wakeable& target);
  // After this call, no thread uses the target, so the target may be destroyed.
  void endRedirect();

 private:
  Word permit_{0};
  std::atomic<bool> isRedirected_{false};
  // Keeps the target alive while unpark() wakes it.
  Mutex mutex_;
  Wakeable* target_ = nullptr;
};

// The number of threads that can run at the same time, at least 1. On one processor, spinning is pointless.
unsigned processors();

// A monotonic clock in nanoseconds. If the system has a clock that also counts while the machine is suspended, it is
// that clock: CLOCK_BOOTTIME, macOS's continuous time, or Windows' interrupt time. Otherwise it is the steady clock.
// All threads of the process read the same clock.
Nanoseconds elapsed();

// Returns zeroed memory, aligned to a cache line if it is large. Aborts the process if there is no memory.
void* takeZeroed(std::size_t bytes);
void freeZeroed(void* memory, std::size_t bytes);

// Keeps this code loaded until the process ends. Otherwise Node would unload the addon when the last worker that uses
// it ends, but the addon's queues and slots must outlive that worker.
void pinModule();

// Starts counting the deliveries of a signal that come from a terminal, not from a process. The host must already
// have installed its handler, which still runs at each delivery. Returns false if the signal has no handler.
bool countTerminalSignals(int signal);
// Subtracts one delivery from that count. Returns false if the count is 0. On Windows, always returns true, because
// only the console sends signals there.
bool takeTerminalSignal(int signal);

}  // namespace stripelock
