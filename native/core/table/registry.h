// All participants and tables of the process.

#pragma once

#include <array>
#include <forward_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/base/free_spans.h"
#include "core/table/membership.h"
#include "core/table/participant.h"

namespace stripelock {

// The kinds of locks. Each kind has separate counts.
enum class LockKind : std::uint8_t { kLock, kProcess, kLease, kWebLock };

struct MetricName {
  LockKind kind;
  std::string name;
  // Sorts by kind, then by name.
  bool operator<(const MetricName& other) const {
    return std::tie(kind, name) < std::tie(other.kind, other.name);
  }
};

// The counts of one kind and name. Only leases have the counts from kAcquired to kLosses.
struct LockMetrics {
  // In the order that JavaScript uses. The first three counts rise and fall; the others never fall, except briefly
  // kContended (see Registry::metrics()). The histogram of wait times starts at kWaits.
  enum Count : std::uint32_t {
    kLocks,
    kHeld,
    kWaiting,
    kContended,
    kTimeouts,
    kAborts,
    kDeadlocks,
    kAbandoned,
    kAcquired,
    kRefused,
    kRenewals,
    kFailures,
    kLosses,
    kNanoseconds,
    kWaits,
  };
  static constexpr std::uint32_t kCells = kWaits + kWaitRanges;
  // In a thread's cells, the flags of the active observers follow the counts (layout.h).
  static constexpr std::uint32_t kObserved = kCells;
  static constexpr std::uint32_t kThreadCells = kCells + 1;

  std::uint64_t& operator[](std::uint32_t count) { return cells[count]; }
  std::uint64_t operator[](std::uint32_t count) const { return cells[count]; }

  std::array<std::uint64_t, kCells> cells{};
};

// The number of threads that can use locks at the same time.
inline constexpr std::uint32_t kMaxSlots = 65535;

class Registry {
 public:
  static Registry& instance();

  // A random number that identifies this copy of the code. Two copies, in one process or in two, have separate queues,
  // so they must not share a lock's memory.
  std::uint64_t id() const { return id_; }

  // A participant for the calling thread, or nullptr when all slots are taken.
  Participant* join(std::int32_t threadId, Participant::WakeLoop wakeLoop);
  // Call it on a thread that ends. Cancels its waits, frees the stripes that it holds, and returns its slot.
  void leave(Participant& participant);
  // nullptr for a slot that was never used.
  Participant* bySlot(std::uint32_t slot);

  // Returns the thread's membership in the table at this address. The memory must stay valid until the membership is
  // closed as many times as it was opened. Returns nullptr if the memory is in use with another number of stripes,
  // another limit, or another value of `exact`.
  Membership* open(Participant& participant, void* memory, std::uint32_t stripes, bool exact = false,
                   std::uint32_t limit = 1, const std::string& name = {},
                   const std::shared_ptr<Gate>& gate = nullptr);
  void close(Membership& membership);

  // The counts of all locks by kind and name, including closed locks. No count falls, except kLocks, kHeld, kWaiting
  // and, briefly, kContended: LocalWaits.sweep() adds a thread's local count to the cell and then clears it, without a
  // lock. A sum that is computed in between counts it twice, and a sum that reads the cell before and the local count
  // after misses it. Among the locks and threads that have ended, up to kMostNames names are counted separately. The
  // further names of a kind are counted together, under the empty name. This call reads the words of all locks.
  // Meanwhile no lock can be opened or closed.
  std::map<MetricName, LockMetrics> metrics();

  // Makes metrics() include the counts in the LockMetrics::kThreadCells cells at `cells` until the thread leaves. The
  // memory must stay valid until then. After that, the registry keeps the counts, and counts keys that the thread still
  // held as abandoned.
  void openCounts(Participant& participant, const MetricName& name, CountCell* cells);

  // Sets or clears an observer's bit in the memory of all tables (kObservedInt) and in all threads' cells
  // (LockMetrics::kObserved) with one of these names. Also applies to tables and cells that are opened later. Without
  // names, applies to all of them. JavaScript reads the bit at each wait.
  void observe(std::uint32_t bit, bool on, std::vector<std::string> names = {});

  // Call it after this thread has created a table in `span`, while no other thread can reach the table. Unless share()
  // is called, the span becomes free when the last membership ends, even if the thread dies (preserves S1 of
  // FreeSpans).
  void own(Membership& membership, const Span& span);
  // Call it before a handle of the table is created. After that, other threads may open the table at any time.
  void share(Membership& membership);
  FreeSpans& freeSpans() { return freeSpans_; }
  // Calls FreeSpans::take for this thread. `arena` becomes the only arena in which the thread allocates.
  std::optional<std::uint32_t> takeSpan(Participant& participant, std::uint64_t arena, std::uint32_t bytes);

 private:
  // The names of the locks that one bit observes; empty for all locks.
  struct Observation {
    std::uint32_t bit;
    std::vector<std::string> names;
  };
  // Counts of leases or web locks, which a thread keeps in JavaScript.
  struct ThreadCounts {
    const Participant* thread;
    MetricName name;
    CountCell* cells;
  };
  struct SharedTable {
    std::shared_ptr<Table> table;
    std::uint32_t members = 0;
    // The table's memory, while only one thread can reach it.
    std::optional<Span> own;
    // The counts that the memory already contained when the table was opened. They are also in ended_.
    LockMetrics before;
  };

  static constexpr std::size_t kMostNames = 1000;

  Registry();
  std::uint32_t observedOf(const std::string& name) const;
  // Adds the table's counts to ended_. Call it after the last thread has left the table.
  void addEnded(const SharedTable& shared);
  // Adds monotonic counters to ended_.
  void addEnded(const MetricName& name, const LockMetrics& counted);
  // `processEnds`: true if the process is ending. Then no thread will read the words again, so they are not changed.
  void end(Membership& membership, bool processEnds = false);
  // Whether only one thread uses locks.
  bool isAlone();

  const std::uint64_t id_;
  FreeSpans freeSpans_;
  Mutex mutex_;
  std::unordered_map<void*, SharedTable> tables_;
  std::vector<Observation> observations_;
  std::forward_list<ThreadCounts> threadCounts_;
  // The counts of closed tables, and of threads that ended.
  std::map<MetricName, LockMetrics> ended_;
  std::vector<std::uint32_t> freeSlots_;
  std::uint32_t usedSlots_ = 0;
  std::array<std::atomic<Participant*>, kMaxSlots + 1> participants_{};
};

}  // namespace stripelock
