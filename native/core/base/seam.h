// Lets tests widen race windows and change durations. Does nothing unless STRIPELOCK_TEST_SEAM is defined.

#pragma once

#include <cstdint>

#ifdef STRIPELOCK_TEST_SEAM
#include <atomic>
#endif

namespace stripelock {

#ifdef STRIPELOCK_TEST_SEAM
// The shortest slice of a sync wait (sync_wait.h). If a test sets this to an hour, a lost wake-up becomes a hang
// instead of a delay of one slice. If the value changes while a wait sleeps, that wait keeps its current slice.
inline std::atomic<std::int64_t> seamShortestSlice{0};
inline std::int64_t seamSlice(std::int64_t nanoseconds) {
  const std::int64_t shortest = seamShortestSlice.load();
  return nanoseconds < shortest ? shortest : nanoseconds;
}
// Called with the name of each point that a thread passes. Set it before any thread uses the core.
inline void (*seamHook)(const char* point) = nullptr;
#define STRIPELOCK_SEAM(point)                                 \
  do {                                                         \
    if (::stripelock::seamHook) ::stripelock::seamHook(point); \
  } while (false)
#else
constexpr std::int64_t seamSlice(std::int64_t nanoseconds) { return nanoseconds; }
#define STRIPELOCK_SEAM(point) static_cast<void>(0)
#endif

}  // namespace stripelock
