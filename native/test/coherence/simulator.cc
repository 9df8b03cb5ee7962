#include "test/coherence/simulator.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

namespace stripelock::test {

namespace {

// Nanoseconds, roughly as on a server. They decide only the order of the threads' steps.
constexpr std::int64_t kAtomic = 5;
constexpr std::int64_t kMiss = 60;
constexpr std::int64_t kPause = 40;
constexpr std::int64_t kYield = 500;
constexpr std::int64_t kSystemCall = 1'000;
constexpr std::int64_t kWakeUp = 20'000;
constexpr std::int64_t kNever = INT64_MAX;

struct Line {
  // A bit for each thread that has the line's present contents.
  std::uint64_t sharers = 0;
  bool isWritten = false;
  // When the last miss ends. A line moves to one core after the other.
  std::int64_t freeAt = 0;
};

struct SimulatedThread {
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack;
  std::int64_t clock = 0;
  // While the thread sleeps: the word or mutex, and the time of its deadline.
  const void* sleepsOn = nullptr;
  bool done = false;
};

struct Machine {
  std::vector<SimulatedThread> threads;
  std::unordered_map<std::uintptr_t, Line> lines;
  std::unordered_map<const void*, bool> heldMutexes;
  std::mt19937_64 random;
  ucontext_t host{};
  const std::function<void(unsigned)>* step = nullptr;
  // The number of steps to begin, and to end until counting starts.
  unsigned left = 0;
  unsigned uncounted = 0;
  AccessCounts counts;
};

Machine* machine = nullptr;
// Null outside of simulate() and on all other threads of the process, which then use the real functions.
thread_local SimulatedThread* running = nullptr;

// Continues the thread with the earliest clock, which may be the caller's.
void reschedule() {
  SimulatedThread* const before = running;
  SimulatedThread* next = nullptr;
  for (SimulatedThread& thread : machine->threads) {
    if (!thread.done && (!next || thread.clock < next->clock)) next = &thread;
  }
  if (next && next->clock == kNever) {
    std::fprintf(stderr, "all simulated threads sleep: a wake-up was lost\n");
    std::abort();
  }
  if (next == before) return;
  running = next;
  if (before->done) {
    setcontext(next ? &next->context : &machine->host);
  } else {
    swapcontext(&before->context, &next->context);
  }
}

void spend(std::int64_t nanoseconds) {
  running->clock += nanoseconds;
  reschedule();
}

// Returns true for a miss.
bool touch(std::uintptr_t address, bool writes) {
  Line& line = machine->lines[address / 64];
  const std::uint64_t self = std::uint64_t{1} << (running - machine->threads.data());
  const bool hits = writes ? line.sharers == self : (line.sharers & self) != 0;
  // Reading a line that no thread has changed costs nothing, and neither does the first access to a line.
  const bool isFree = line.sharers == 0 || (!writes && !line.isWritten);
  line.sharers = writes ? self : line.sharers | self;
  line.isWritten |= writes;
  if (hits || isFree) return false;
  ++machine->counts.misses;
  running->clock = line.freeAt = std::max(running->clock, line.freeAt) + kMiss;
  return true;
}

void access(const volatile void* memory, std::size_t bytes, bool writes) {
  if (!running || bytes == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  bool missed = false;
  for (std::uintptr_t line = address / 64; line <= (address + bytes - 1) / 64; ++line) {
    missed |= touch(line * 64, writes);
  }
  if (missed) reschedule();
}

void atomicAccess(const volatile void* memory, bool writes) {
  if (!running) return;
  access(memory, 1, writes);
  spend(kAtomic);
}

// Sleeps until wake() or the deadline.
void sleepUntil(const void* on, std::int64_t deadline) {
  running->sleepsOn = on;
  running->clock = deadline;
  reschedule();
  running->sleepsOn = nullptr;
}

void wake(const void* on, int count) {
  spend(kSystemCall);
  for (SimulatedThread& thread : machine->threads) {
    if (thread.sleepsOn != on || count == 0) continue;
    --count;
    ++machine->counts.wakes;
    thread.sleepsOn = nullptr;
    thread.clock = running->clock + kWakeUp + randomBelow(kWakeUp / 4);
  }
}

void main(unsigned index) {
  running->clock = randomBelow(1000);
  reschedule();
  while (machine->left > 0) {
    --machine->left;
    (*machine->step)(index);
    if (machine->uncounted > 0 && --machine->uncounted == 0) machine->counts = {};
  }
  running->done = true;
  reschedule();
}

}  // namespace

AccessCounts simulate(unsigned threads, unsigned steps, std::uint64_t seed,
                      const std::function<void(unsigned)>& step) {
  constexpr std::size_t kStack = 256 * 1024;
  Machine simulated;
  machine = &simulated;
  simulated.random.seed(seed);
  simulated.step = &step;
  simulated.left = steps;
  simulated.uncounted = steps / 2;
  simulated.threads.resize(threads);
  for (unsigned i = 0; i < threads; ++i) {
    SimulatedThread& thread = simulated.threads[i];
    thread.stack = std::make_unique<std::byte[]>(kStack);
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStack;
    makecontext(&thread.context, reinterpret_cast<void (*)()>(main), 1, i);
  }
  running = &simulated.threads[0];
  swapcontext(&simulated.host, &running->context);
  running = nullptr;
  machine = nullptr;
  return simulated.counts;
}

std::uint32_t randomBelow(std::uint32_t limit) {
  return static_cast<std::uint32_t>(machine->random() % limit);
}

void compute(std::uint32_t nanoseconds) { spend(nanoseconds / 2 + randomBelow(nanoseconds + 1)); }

namespace {

int lockMutex(pthread_mutex_t* mutex) {
  atomicAccess(mutex, true);
  bool& held = machine->heldMutexes[mutex];
  ++(held ? machine->counts.heldMutexes : machine->counts.freeMutexes);
  // As in glibc, an unlocked mutex is free for any thread, and a woken thread may find it locked again.
  while (held) {
    spend(kSystemCall);
    if (held) sleepUntil(mutex, kNever);
    atomicAccess(mutex, true);
  }
  held = true;
  return 0;
}

int unlockMutex(pthread_mutex_t* mutex) {
  machine->heldMutexes[mutex] = false;
  atomicAccess(mutex, true);
  const auto& threads = machine->threads;
  const auto sleepsHere = [mutex](const SimulatedThread& thread) { return thread.sleepsOn == mutex; };
  if (std::any_of(threads.begin(), threads.end(), sleepsHere)) wake(mutex, 1);
  return 0;
}

// Only the operations of core/base/platform.cc.
long futex(const std::uint32_t* word, int operation, std::uint32_t value, const timespec* deadline) {
  if (operation == FUTEX_WAKE_PRIVATE) {
    wake(word, static_cast<int>(value));
    return 0;
  }
  spend(kSystemCall);
  if (*word == value) {
    sleepUntil(word, deadline ? deadline->tv_sec * 1'000'000'000 + deadline->tv_nsec : kNever);
  }
  return 0;
}

}  // namespace

}  // namespace stripelock::test

// The layout of the heap must not depend on earlier allocations. Each block starts a cache line, because in a process
// each thread has a separate part of the heap.
// GCC warns if it inlines only one of them.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!memory) std::abort();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace stripelock::test;

namespace stripelock {

void relax() {
  if (running) spend(kPause);
}

}  // namespace stripelock

// ── the functions that the linker redirects ──

extern "C" {

int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  return running ? lockMutex(mutex) : __real_pthread_mutex_lock(mutex);
}

int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  return running ? unlockMutex(mutex) : __real_pthread_mutex_unlock(mutex);
}

long __wrap_syscall(long number, const std::uint32_t* word, int operation, std::uint32_t value,
                    const timespec* deadline) {
  if (number != SYS_futex || !running) std::abort();
  return futex(word, operation, value, deadline);
}

void* __wrap_calloc(std::size_t count, std::size_t bytes) {
  return std::memset(operator new(count* bytes), 0, count * bytes);
}

int __wrap_sched_yield() {
  if (running) spend(kYield);
  return 0;
}

// std::chrono::steady_clock::now() and std::thread::hardware_concurrency().
std::int64_t __real__ZNSt6chrono3_V212steady_clock3nowEv();
std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  return running ? running->clock : __real__ZNSt6chrono3_V212steady_clock3nowEv();
}
unsigned __wrap__ZNSt6thread20hardware_concurrencyEv() { return 64; }

// ── the functions that -fsanitize=thread calls ──

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** at, void*) { access(at, sizeof *at, true); }
void __tsan_vptr_read(void** at) { access(at, sizeof *at, false); }
void __tsan_read_range(void* at, std::size_t bytes) { access(at, bytes, false); }
void __tsan_write_range(void* at, std::size_t bytes) { access(at, bytes, true); }

#define PLAIN(bytes)                                                        \
  void __tsan_read##bytes(void* at) { access(at, bytes, false); }           \
  void __tsan_write##bytes(void* at) { access(at, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* at) { access(at, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* at) { access(at, bytes, true); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

#define MODIFY(bits, T, name)                                 \
  T __tsan_atomic##bits##_##name(volatile T* at, T by, int) { \
    atomicAccess(at, true);                                   \
    return __atomic_##name(at, by, __ATOMIC_SEQ_CST);         \
  }
// A compare-and-swap takes the line even if it fails.
#define COMPARE(bits, T, name)                                                                         \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile T* at, T* expected, T next, int, int) {   \
    atomicAccess(at, true);                                                                            \
    return __atomic_compare_exchange_n(at, expected, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define ATOMIC(bits, T)                                        \
  T __tsan_atomic##bits##_load(const volatile T* at, int) {    \
    atomicAccess(at, false);                                   \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);              \
  }                                                            \
  void __tsan_atomic##bits##_store(volatile T* at, T v, int) { \
    atomicAccess(at, true);                                    \
    __atomic_store_n(at, v, __ATOMIC_SEQ_CST);                 \
  }                                                            \
  T __tsan_atomic##bits##_exchange(volatile T* at, T v, int) { \
    atomicAccess(at, true);                                    \
    return __atomic_exchange_n(at, v, __ATOMIC_SEQ_CST);       \
  }                                                            \
  MODIFY(bits, T, fetch_add)                                   \
  MODIFY(bits, T, fetch_sub)                                   \
  MODIFY(bits, T, fetch_and)                                   \
  MODIFY(bits, T, fetch_or)                                    \
  COMPARE(bits, T, strong)                                     \
  COMPARE(bits, T, weak)
ATOMIC(8, std::uint8_t)
ATOMIC(32, std::uint32_t)
ATOMIC(64, std::uint64_t)

}  // extern "C"
