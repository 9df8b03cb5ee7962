// A mutex for rarely contended sections of a few dozen nanoseconds. It is much faster than std::mutex, which would
// account for a third of the time of an uncontended web lock. Unlocking is one plain store, because it wakes no thread.
//
// If the mutex is locked, the caller spins, then yields, then naps for increasing times, up to kLongestNap. It naps
// because the holder may not be running, or may be in one of the few long sections. The mutex is not fair.

#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/spin.h"
#include "core/base/sync.h"

namespace stripelock {

class ShortMutex {
 public:
  ShortMutex() = default;
  ShortMutex(const ShortMutex&) = delete;
  ShortMutex& operator=(const ShortMutex&) = delete;

  void lock() {
    if (!try_lock()) lockSlow();
  }
  // Reads first, because an exchange takes the cache line from the holder.
  bool try_lock() {
    return !locked_.load(std::memory_order_relaxed) && !locked_.exchange(true, std::memory_order_acquire);
  }
  // The release order pairs with the acquire order of try_lock().
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  static constexpr int kMostYields = 16;
  static constexpr std::chrono::microseconds kFirstNap{20};
  static constexpr std::chrono::microseconds kLongestNap{1000};

  void lockSlow() {
    const auto attempt = [this] { return try_lock(); };
    if (spin(attempt)) return;
    for (int i = 0; i < kMostYields; ++i) {
      std::this_thread::yield();
      if (attempt()) return;
    }
    std::chrono::microseconds nap = kFirstNap;
    do {
      STRIPELOCK_SEAM("short mutex: before a nap");
      std::this_thread::sleep_for(nap);
      nap = std::min(2 * nap, kLongestNap);
    } while (!try_lock());
  }

  std::atomic<bool> locked_{false};
};

using ShortLock = std::unique_lock<ShortMutex>;

}  // namespace stripelock
