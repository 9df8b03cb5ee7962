// The parts that differ between operating systems: blocking a thread, keeping this module loaded, the clock that counts
// while the machine is suspended, and the senders of signals. Everything else is standard C++.
//
// With STRIPELOCK_PORTABLE_PARK, and on any system without a futex, threads sleep on mutexes and condition variables.

#pragma once

#include <cstddef>

#include "core/sync.h"

namespace stripelock {

// Sleeps while the word has that value, until a thread of this process changes it and wakes those who sleep on it. May
// return early; at the deadline, not before it, it returns anyway.
void sleepOn(Word& word, std::uint32_t value, Deadline deadline);
// Call these after the word was changed. They do not touch the word, so it may be gone.
void wakeOne(const Word& word);
void wakeAll(const Word& word);

// What a thread can sleep on in place of its parker.
class Alarm {
 public:
  virtual void ring() = 0;

 protected:
  ~Alarm() = default;
};

// A binary semaphore for one thread: unpark() leaves a permit, park() takes it or waits for it. A permit left
// over from earlier makes park() return at once, so the caller must check again what it waits for.
class Parker {
 public:
  // True: a permit was taken. False: the deadline passed.
  bool park(Deadline deadline);
  // From any thread.
  void unpark();

  // From now on unpark() also rings the alarm, on which the thread is about to sleep. False if there is a permit, which this
  // takes: then the thread must not sleep.
  bool useAlarm(Alarm& alarm);
  // The alarm is not used any more once this returns, so it may be destroyed.
  void dropAlarm();

 private:
  Word permit_{0};
  std::atomic<bool> hasAlarm_{false};
  // Guards the alarm against its end.
  Mutex mutex_;
  Alarm* alarm_ = nullptr;
};

// Threads that can run at the same time, at least 1. Spinning for another thread is pointless on one.
unsigned processors();

// Nanoseconds on a clock that never goes back, and that counts while the machine is suspended if the platform has such a
// clock: CLOCK_BOOTTIME, macOS's continuous time, Windows' interrupt time. Else the steady clock. All threads of the
// process read the same clock.
Nanoseconds elapsed();

// Zeroed memory, at the start of a cache line if it is large. Ends the process if there is none, as operator new does.
void* takeZeroed(std::size_t bytes);
void freeZeroed(void* memory, std::size_t bytes);

// Keeps this code loaded until the process ends: Node unloads an addon with the last worker that used it, and the
// addon's queues and slots must outlive that worker.
void pinModule();

// Starts to count the deliveries of one signal that a terminal sends, and no process. The host must already have installed
// its handler, which still runs at each delivery. Returns false if the signal has none.
bool countTerminalSignals(int signal);
// Takes one delivery from that count. Returns false if the count is 0. Always true on Windows, where only the console sends
// signals.
bool takeTerminalSignal(int signal);

}  // namespace stripelock
