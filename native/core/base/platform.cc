#include "core/base/platform.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <thread>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <dlfcn.h>
#include <sys/mman.h>

#include <csignal>
#endif
#if defined(__APPLE__)
#include <mach/mach_time.h>
#endif
#if defined(__linux__) && !defined(STRIPELOCK_PORTABLE_PARK)
#define STRIPELOCK_FUTEX
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace stripelock {

bool Parker::park(Deadline deadline) {
  for (;;) {
    if (permit_.exchange(0) != 0) return true;
    if (!deadline.isNever() && deadline.passedAt(now())) return false;
    sleepOn(permit_, 0, deadline);
  }
}

void Parker::unpark() {
  if (permit_.exchange(1) != 0) return;
  // Either this thread sees the redirect, or the sleeper sees the permit before it sleeps.
  // mutant: unpark-without-redirect
  if (!isRedirected_.load()) return wakeOne(permit_);
  const Lock lock(mutex_);
  if (target_) target_->wake();
}

bool Parker::redirect(Wakeable& target) {
  {
    const Lock lock(mutex_);
    target_ = &target;
  }
  isRedirected_.store(true);
  STRIPELOCK_SEAM("park: before it looks for a permit");
  if (permit_.exchange(0) == 0) return true;
  endRedirect();
  return false;
}

void Parker::endRedirect() {
  isRedirected_.store(false);
  const Lock lock(mutex_);
  target_ = nullptr;
}

#if defined(STRIPELOCK_FUTEX)

void sleepOn(Word& word, std::uint32_t value, Deadline deadline) {
  // FUTEX_WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC, the clock behind steady_clock.
  timespec point{};
  point.tv_sec = static_cast<time_t>(deadline.point() / 1'000'000'000);
  point.tv_nsec = static_cast<long>(deadline.point() % 1'000'000'000);
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline.isNever() ? nullptr : &point, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void wakeOne(const Word& word) { syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

void wakeAll(const Word& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

#elif defined(_WIN32) && !defined(STRIPELOCK_PORTABLE_PARK)

void sleepOn(Word& word, std::uint32_t value, Deadline deadline) {
  DWORD milliseconds = INFINITE;
  if (!deadline.isNever()) {
    const Nanoseconds left = std::max<Nanoseconds>(deadline.point() - now(), 0);
    milliseconds = static_cast<DWORD>(std::min<Nanoseconds>((left + 999'999) / 1'000'000, INFINITE - 1));
  }
  WaitOnAddress(&word, &value, sizeof value, milliseconds);
}

void wakeOne(const Word& word) { WakeByAddressSingle(const_cast<Word*>(&word)); }

void wakeAll(const Word& word) { WakeByAddressAll(const_cast<Word*>(&word)); }

#else

namespace {

// The threads that sleep on a word whose address maps to this bucket, as in WebKit's parking lot. Several words can
// share a bucket. So a wake wakes all threads of the bucket, and each thread checks its own word.
struct Bucket {
  Mutex mutex;
  std::condition_variable woken;
};

Bucket& bucketOf(const Word& word) {
  // Never destroyed: threads may outlive static destruction.
  static auto& buckets = *new std::array<Bucket, 256>();
  return buckets[reinterpret_cast<std::uintptr_t>(&word) / 64 % buckets.size()];
}

}  // namespace

void sleepOn(Word& word, std::uint32_t value, Deadline deadline) {
  Bucket& bucket = bucketOf(word);
  Lock lock(bucket.mutex);
  // A thread that has changed the word locks this mutex before it wakes the sleepers. So this thread either sees the
  // change or is woken.
  if (word.load() != value) return;
  if (deadline.isNever()) {
    bucket.woken.wait(lock);
  } else {
    bucket.woken.wait_until(
        lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline.point())));
  }
}

void wakeOne(const Word& word) { wakeAll(word); }

void wakeAll(const Word& word) {
  Bucket& bucket = bucketOf(word);
  const Lock lock(bucket.mutex);
  bucket.woken.notify_all();
}

#endif

#if defined(__linux__)

Nanoseconds elapsed() {
  timespec time{};
  // CLOCK_BOOTTIME exists since Linux 2.6.39. A sandbox that refuses this clock refuses it at each call, so elapsed()
  // never changes its clock.
  if (clock_gettime(CLOCK_BOOTTIME, &time) != 0) return now();
  return Nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

#elif defined(__APPLE__)

Nanoseconds elapsed() {
  static const mach_timebase_info_data_t base = [] {
    mach_timebase_info_data_t info{};
    mach_timebase_info(&info);
    return info;
  }();
  // Divides before it multiplies, so that the product does not overflow.
  const std::uint64_t ticks = mach_continuous_time();
  const std::uint64_t whole = ticks / base.denom * base.numer;
  return static_cast<Nanoseconds>(whole + ticks % base.denom * base.numer / base.denom);
}

#elif defined(_WIN32)

Nanoseconds elapsed() {
  using Read = void(WINAPI*)(PULONGLONG);
  // Windows 10 has this function, but not every compiler ships an import library for it.
  static const auto read = reinterpret_cast<Read>(reinterpret_cast<void*>(
      GetProcAddress(GetModuleHandleW(L"kernelbase.dll"), "QueryInterruptTimePrecise")));
  if (!read) return now();
  ULONGLONG units = 0;
  read(&units);
  return static_cast<Nanoseconds>(units * 100);
}

#else

Nanoseconds elapsed() { return now(); }

#endif

unsigned processors() {
  // Counting takes several microseconds, because the C library asks the system.
  static const unsigned count = std::max(1u, std::thread::hardware_concurrency());
  return count;
}

namespace {

// Blocks below this size come from the allocator; larger ones are mapped.
constexpr std::size_t kLarge = std::size_t{128} * 1024;

#if defined(_WIN32)
void* map(std::size_t bytes) {
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}
void unmap(void* memory, std::size_t /*bytes*/) { VirtualFree(memory, 0, MEM_RELEASE); }
#else
void* map(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
void unmap(void* memory, std::size_t bytes) { munmap(memory, bytes); }
#endif

}  // namespace

void* takeZeroed(std::size_t bytes) {
  void* const memory = bytes < kLarge ? std::calloc(1, bytes) : map(bytes);
  if (!memory) std::abort();
  return memory;
}

void freeZeroed(void* memory, std::size_t bytes) {
  if (bytes < kLarge) {
    std::free(memory);
  } else {
    unmap(memory, bytes);
  }
}

#if defined(_WIN32)

void pinModule() {
  HMODULE module = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                     reinterpret_cast<LPCWSTR>(&pinModule), &module);
}

bool countTerminalSignals(int /*signal*/) { return true; }

bool takeTerminalSignal(int /*signal*/) { return true; }

#else

void pinModule() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&pinModule), &info) == 0 || info.dli_fname == nullptr) return;
  // The handle is deliberately not closed. It only serves to mark the module with RTLD_NODELETE.
  static_cast<void>(dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
}

namespace {

struct Delivered {
  // The number of deliveries from a terminal that were not taken yet. Lock-free, because a handler may run between any
  // two instructions.
  Word count{0};
  // The handler that the host installed.
  struct sigaction host {};
};
std::array<Delivered, NSIG> deliveries;

bool isSignal(int signal) { return signal > 0 && signal < NSIG; }

void onSignal(int signal, siginfo_t* info, void* context) {
#if defined(__linux__)
  // Checks si_code, because si_pid is also 0 for a process in another PID namespace.
  const bool byTerminal = info->si_code == SI_KERNEL;
#else
  const bool byTerminal = info->si_pid == 0;
#endif
  auto& [count, host] = deliveries[static_cast<std::size_t>(signal)];
  if (byTerminal) count.fetch_add(1);
  if ((host.sa_flags & SA_SIGINFO) != 0) {
    host.sa_sigaction(signal, info, context);
  } else {
    host.sa_handler(signal);
  }
}

}  // namespace

bool countTerminalSignals(int signal) {
  if (!isSignal(signal)) return false;
  struct sigaction current {};
  if (sigaction(signal, nullptr, &current) != 0) return false;
  const bool hasInfo = (current.sa_flags & SA_SIGINFO) != 0;
  if (hasInfo && current.sa_sigaction == onSignal) return true;
  if (!hasInfo && (current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN)) return false;
  deliveries[static_cast<std::size_t>(signal)].host = current;
  current.sa_sigaction = onSignal;
  current.sa_flags |= SA_SIGINFO;
  return sigaction(signal, &current, nullptr) == 0;
}

bool takeTerminalSignal(int signal) {
  if (!isSignal(signal)) return false;
  Word& count = deliveries[static_cast<std::size_t>(signal)].count;
  // Only the thread with the host's listener calls this function, so the count cannot fall between the load and the
  // subtraction.
  if (count.load() == 0) return false;
  count.fetch_sub(1);
  return true;
}

#endif

}  // namespace stripelock
