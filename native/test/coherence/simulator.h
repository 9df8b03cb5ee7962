// A simulated machine with one core for each thread. The threads run one at a time, on fibers of the calling thread, in
// the order of their simulated clocks. So a run depends only on its seed, and not on the machine.
//
// The core and coherence_test.cc are compiled with -fsanitize=thread, but linked with simulator.cc in place of
// ThreadSanitizer's library. The compiler then calls this file before each access to memory, atomic or not. Calls of
// mutexes, futexes and clocks are redirected here by the linker (Makefile).

#pragma once

#include <cstdint>
#include <functional>

namespace stripelock::test {

// The accesses of all threads of a simulation.
struct AccessCounts {
  // Accesses to a cache line that another thread has changed since this thread's last access, and changes of a line that
  // another thread has accessed since this thread's last change. A thread's first accesses do not count while no thread
  // has changed the line. Caches never evict a line.
  std::uint64_t misses = 0;
  // Locked mutexes, by whether the mutex was free.
  std::uint64_t freeMutexes = 0;
  std::uint64_t heldMutexes = 0;
  // Sleeping threads that were woken by another thread, including those that slept on a mutex.
  std::uint64_t wakes = 0;
};

// Up to 64 simulated threads call `step(thread)` again and again, `steps` times in total. Counts only the second half of
// these steps. So the costs of the start do not count.
AccessCounts simulate(unsigned threads, unsigned steps, std::uint64_t seed,
                      const std::function<void(unsigned)>& step);
// Call these within a step.
// Uniform in 0 … limit - 1.
std::uint32_t randomBelow(std::uint32_t limit);
// The thread does something else for about this time.
void compute(std::uint32_t nanoseconds);

}  // namespace stripelock::test
