// The parts that differ between operating systems: blocking a thread, keeping this module loaded, the clock that counts
// while the machine is suspended, and the senders of signals. Everything else is standard C++.
//
// With STRIPELOCK_PORTABLE_PARK, and on any system without a futex, threads sleep on mutexes and condition variables.

#pragma once

#include "core/sync.h"

namespace stripelock {

// Sleeps while the word has that value, until a thread of this process changes it and wakes the sleepers. May return
// early; at the deadline, not before it, it returns anyway.
void sleepOn(Word& word, std::uint32_t value, Deadline deadline);
// Call these after changing the word. They do not access it, so its memory may be gone.
void wakeOne(const Word& word);
void wakeAll(const Word& word);

// A binary semaphore for one thread: unpark() leaves a permit, park() takes it or waits for it. An old permit makes
// park() return at once, so the caller must check its condition again.
class Parker {
 public:
  // True: a permit was taken. False: the deadline passed.
  bool park(Deadline deadline);
  // From any thread.
  void unpark();

 private:
  Word permit_{0};
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

// Starts counting the deliveries of a signal that come from a terminal, not from a process. The host must already have
// installed its handler, which still runs at each delivery. Returns false if the signal has none.
bool countTerminalSignals(int signal);
// Takes one delivery from that count. Returns false if the count is 0. Always true on Windows, where only the console sends
// signals.
bool takeTerminalSignal(int signal);

}  // namespace stripelock
