// Where tests widen race windows. Nothing at all unless STRIPELOCK_TEST_SEAM is defined.

#pragma once

namespace stripelock {

#ifdef STRIPELOCK_TEST_SEAM
// Called with the name of the point that is passed. Set it before any thread uses the core.
inline void (*seamHook)(const char* point) = nullptr;
#define STRIPELOCK_SEAM(point)                                 \
  do {                                                         \
    if (::stripelock::seamHook) ::stripelock::seamHook(point); \
  } while (false)
#else
#define STRIPELOCK_SEAM(point) static_cast<void>(0)
#endif

}  // namespace stripelock
