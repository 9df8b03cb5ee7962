// Replaces Node in the tests: shared memory, threads with an event loop, and JavaScript's fast path.

#pragma once

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/table/inspect.h"
#include "core/table/membership.h"
#include "core/table/registry.h"
#include "core/table/sync_wait.h"

namespace stripelock::test {

using Stripes = std::vector<std::uint32_t>;
using Status = SyncOutcome::Status;

inline constexpr std::array kEachMode{Mode::kExclusive, Mode::kShared};
constexpr Mode sharedIf(bool condition) { return condition ? Mode::kShared : Mode::kExclusive; }

inline constexpr double kForever = std::numeric_limits<double>::infinity();
inline constexpr Nanoseconds kAnHour = 3'600'000'000'000;

double milliseconds(Nanoseconds time);

// An environment variable as a number.
std::uint64_t numberFrom(const char* variable, std::uint64_t otherwise);

// The milliseconds after which a wait counts as stuck; long enough for a loaded machine under a sanitizer.
// STRIPELOCK_STUCK overrides it.
inline const double kStuck = static_cast<double>(numberFrom("STRIPELOCK_STUCK", 30'000));
// Returns a source of random numbers. Its seed is STRIPELOCK_SEED, or random if that is not set. Prints the seed with
// `name`.
std::mt19937_64 seeded(const char* name);

using Random = std::mt19937_64;

// Uniform in 0 … below - 1.
inline std::uint32_t below(Random& random, std::uint32_t limit) {
  return static_cast<std::uint32_t>(random() % limit);
}
inline bool oneIn(Random& random, std::uint32_t rarity) { return below(random, rarity) == 0; }

// With STRIPELOCK_SLICES=none, no sync wait reaches the end of a slice (core/table/sync_wait.h), so a lost wake-up
// becomes a hang. During the lifetime of this object, slices end as usual, for tests that need the end of a slice.
class UsualSlices {
 public:
  UsualSlices() : shortest_(seamShortestSlice.exchange(0)) {}
  ~UsualSlices() { seamShortestSlice.store(shortest_); }
  UsualSlices(const UsualSlices&) = delete;
  UsualSlices& operator=(const UsualSlices&) = delete;

 private:
  const Nanoseconds shortest_;
};
// During the lifetime of this object, no sync wait reaches the end of a slice, whatever STRIPELOCK_SLICES says.
class NoSlices {
 public:
  NoSlices() : shortest_(seamShortestSlice.exchange(kAnHour)) {}
  ~NoSlices() { seamShortestSlice.store(shortest_); }
  NoSlices(const NoSlices&) = delete;
  NoSlices& operator=(const NoSlices&) = delete;

 private:
  const Nanoseconds shortest_;
};

// Waits for a condition that other threads make true. Returns false after kStuck.
bool eventually(const std::function<bool()>& condition);

// Reports a failure and ends the process. For failures that leave threads blocked, because a blocked thread cannot be
// ended.
[[noreturn]] void stuck(const char* what);
// Prints a lock's holders and waiters to stderr.
void describe(Table& table);

// Replaces a SharedArrayBuffer: a header and a line per stripe, all zero.
class SharedMemory {
 public:
  explicit SharedMemory(std::uint32_t stripes);

  std::uint32_t stripes() const { return stripes_; }
  void* data() { return lines_.get(); }
  Word& word(std::uint32_t stripe);
  std::int64_t cell(std::uint32_t index);
  // Whether all words are 0.
  bool isFree();

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  std::uint32_t stripes_;
  std::unique_ptr<Line[]> lines_;
};

// A thread that uses locks, with a minimal event loop for grants. Belongs to the thread that created it.
class Environment {
 public:
  Environment();
  ~Environment() { end(); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  Participant& participant() { return *participant_; }
  AsyncWaits& async() { return participant_->asyncWaits(); }
  std::uint32_t slot() const { return participant_->slot(); }
  std::int32_t threadId() const { return participant_->threadId(); }

  // Leaves the registry, as the end of a thread does.
  void end();
  bool hasEnded() const { return participant_ == nullptr; }
  // Sleeps until the event loop is woken. Returns false if it is not woken within that time.
  bool awaitWake(double milliseconds);
  // The number of wakes of the event loop so far.
  int wakes();

 private:
  Participant* participant_;
  Mutex mutex_;
  std::condition_variable woken_;
  bool awake_ = false;
  int wakes_ = 0;
};

struct Ask {
  Mode mode = Mode::kExclusive;
  double timeout = kForever;
  // Whether to try the fast path of JavaScript first, and call the core only if that fails.
  bool fast = true;
};

// One environment's use of one lock. Takes the same steps as the JavaScript layer.
class Client {
 public:
  Client(Environment& environment, SharedMemory& memory, bool exact = false, std::uint32_t limit = 1);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Environment& environment() { return environment_; }
  Membership& membership() { return *membership_; }
  Table& table() { return membership_->table(); }

  // The compare-and-swaps of lock_word.h. They return false where JavaScript would call the core.
  bool take(std::uint32_t stripe, Mode mode = Mode::kExclusive);
  bool giveBack(std::uint32_t stripe, Mode mode = Mode::kExclusive);

  SyncOutcome acquireSync(const Stripes& stripes, Ask ask = {}, Interrupt interrupt = {});
  Status sync(const Stripes& stripes, Ask ask = {}) { return acquireSync(stripes, ask).status; }
  AsyncWaits::Started acquire(const Stripes& stripes, Ask ask = {});
  // Starts an async acquisition that has to wait. Returns its id.
  std::uint32_t pend(const Stripes& stripes, Ask ask = {});
  // Returns false if, according to the words, some stripe is not held in this mode.
  bool release(const Stripes& stripes, Mode mode = Mode::kExclusive);
  bool releaseSlow(std::uint32_t stripe, Mode mode = Mode::kExclusive) {
    return membership_->release(stripe, mode);
  }
  void close();

 private:
  std::uint32_t takeFirst(const Stripes& stripes, Ask ask);

  Environment& environment_;
  std::unique_ptr<Word[]> shares_;
  Membership* membership_;
};

// An environment that uses one lock.
struct Peer {
  explicit Peer(SharedMemory& memory, bool exact = false, std::uint32_t limit = 1)
      : client(environment, memory, exact, limit) {}
  Environment environment;
  Client client;

  std::uint32_t slot() const { return environment.slot(); }
  AsyncWaits& async() { return environment.async(); }
};

// A sync acquisition on a separate thread. The client belongs to that thread until it is joined.
class Blocking {
 public:
  Blocking(Client& client, Stripes stripes, Ask ask = {}, Interrupt interrupt = {});
  ~Blocking() { join(); }
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;

  bool decided() const { return decided_.load(); }
  // Ends the process if the acquisition is still undecided long after kStuck.
  const SyncOutcome& join();
  Status status() { return join().status; }
  // The milliseconds from the call to the outcome.
  double milliseconds();

 private:
  SyncOutcome outcome_{};
  Nanoseconds took_ = 0;
  std::atomic<bool> decided_{false};
  Table& table_;
  std::thread thread_;
};

// Sets the handler of the core's seam (core/base/seam.h) for all threads; nullptr for none.
void onSeam(void (*handler)(const char* point));

// During the lifetime of this object, the race windows of the core are wider, in all threads.
class WidenedWindows {
 public:
  explicit WidenedWindows(std::uint64_t seed);
  ~WidenedWindows();
};

// Stops the first thread that passes one point of the core, until the barrier is opened or destroyed. Only one barrier
// may exist at a time.
class Barrier {
 public:
  explicit Barrier(const char* point);
  ~Barrier();
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Waits until a thread is stopped. Returns false if none arrives within kStuck.
  bool awaitArrival() const;
  void open();
};

// Waits for a wake of the event loop and returns the grants of take(); an empty list if it is not woken within kStuck.
std::vector<AsyncWaits::Granted> awaitGrants(Environment& environment);
std::vector<AsyncWaits::Granted> takeGrants(Environment& environment);
std::vector<AsyncWaits::Expired> takeExpired(Environment& environment);

// Makes the next release hand the stripe over, as it would once kBargingPeriod has passed.
void makeHandOverDue(Client& client, std::uint32_t stripe);
// Makes the next release free the stripe and designate a waiter, however slow the machine is.
void putHandOverOff(Client& client, std::uint32_t stripe);
// During the lifetime of this object, a grant can be revoked if it is not collected within this time. Create it before
// other threads use the core.
class Patience {
 public:
  explicit Patience(Nanoseconds patience) { kRevokeAfter = patience; }
  ~Patience() { kRevokeAfter = before_; }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  const Nanoseconds before_ = kRevokeAfter;
};
// The number of waiters in the stripe's queue.
std::size_t waitersOf(Client& client, std::uint32_t stripe);
bool awaitWaiters(Client& client, std::uint32_t stripe, std::size_t count);

}  // namespace stripelock::test
