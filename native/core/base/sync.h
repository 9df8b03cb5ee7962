// The atomics, mutexes and clocks that the core uses.

#pragma once

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>

#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <ctime>
#endif

#include "core/base/seam.h"

namespace stripelock {

// A word or cell in memory that JavaScript also accesses. JavaScript's Atomics are sequentially consistent, and so is
// every access here that names no order.
using Word = std::atomic<std::uint32_t>;
using Cell = std::atomic<std::int64_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);
static_assert(sizeof(Cell) == 8 && Cell::is_always_lock_free);
// A number in a Float64Array, which JavaScript reads and writes without Atomics. It is a count that only JavaScript's
// thread writes, or flags that only the core writes. A store of an aligned double is one instruction on all supported
// machines, so other threads read either the old or the new number.
using CountCell = std::atomic<double>;
static_assert(sizeof(CountCell) == 8 && CountCell::is_always_lock_free);

using Mutex = std::mutex;
using Lock = std::unique_lock<Mutex>;

// Nanoseconds on the steady clock.
using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds kMillisecond = 1'000'000;
// The barging period: how long running threads and processes may overtake the longest waiter. It starts when the first
// waiter queues, and restarts when a waiter is served.
inline constexpr Nanoseconds kBargingPeriod = kMillisecond;

inline Nanoseconds now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Nanoseconds since 1970.
inline Nanoseconds wallClock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The time on the steady clock at the system's last tick, up to a few milliseconds ago. On Linux, reading it costs 5
// ns, and now() costs 24 ns.
inline Nanoseconds recently() {
#if defined(__linux__)
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return Nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
#else
  return now();
#endif
}

// A point in time at which several consecutive steps must have ended.
class Deadline {
 public:
  static constexpr Deadline never() { return Deadline(std::numeric_limits<Nanoseconds>::max()); }
  static constexpr Deadline at(Nanoseconds point) { return Deadline(point); }

  // never() for infinity, NaN, and times beyond the range of the clock (292 years).
  static Deadline after(double milliseconds, Nanoseconds from = now()) {
    const double nanoseconds = std::ceil(milliseconds * 1e6);
    if (!(nanoseconds < 4e18)) return never();
    return Deadline(from + static_cast<Nanoseconds>(nanoseconds));
  }

  constexpr bool isNever() const { return point_ == std::numeric_limits<Nanoseconds>::max(); }
  constexpr bool passedAt(Nanoseconds time) const { return time >= point_; }
  constexpr Nanoseconds point() const { return point_; }

 private:
  explicit constexpr Deadline(Nanoseconds point) : point_(point) {}
  Nanoseconds point_;
};

// Hints to the processor that this is a spin loop.
#if defined(STRIPELOCK_SIMULATED)
// Takes simulated time (native/test/coherence/simulator.cc).
void relax();
#else
inline void relax() {
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
  _mm_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
  __asm__ __volatile__("yield");
#endif
}
#endif

}  // namespace stripelock
