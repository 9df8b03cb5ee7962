// Decides which waits a contention profile records, and keeps the records. The records are created in JavaScript, by
// the waiting thread and by the releasing thread, because only a thread itself knows its stack.
//
// A wait of w milliseconds is recorded with probability w / every, and always if w is at least `every`. If thousands of
// threads wait, `every` rises for a while, to limit the records to a few hundred a second. The release that ends a wait
// decides at random whether to record it (a draw), because the releasing thread knows the length of the wait. So both
// threads record the wait, or neither does.
//
// A lease is granted by its store, so its release does not find the waiters in a queue. Therefore the waits for leases are
// registered here, by a text that stands for the store and the key. The draw of such a wait is made when it begins: the
// wait is recorded if it lasts for at least a random time. A release is recorded if a wait for the key has lasted that
// long.

#pragma once

#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/base/sync.h"

namespace stripelock {

enum class Draw : std::uint8_t {
  kNone,  // not drawn yet
  kLeftOut,
  // This value and all higher ones mean that the wait is recorded. The exact value identifies the profile.
  kRecorded,
};

inline bool isRecorded(Draw draw) { return draw >= Draw::kRecorded; }

// Any thread may use it at any time. The records that a thread has added survive the thread's end.
class ContentionProfile {
 public:
  static ContentionProfile& instance();

  // `threshold` and `every` are in milliseconds. Without names, the profile covers all locks. Returns false if another
  // profile is running.
  bool start(double threshold, double every, std::vector<std::string> names);
  void stop();

  // Decides at random whether to record a wait that has lasted `waited`. Locks nothing.
  Draw draw(Nanoseconds waited);
  // A wait of this length or longer is always recorded.
  Nanoseconds every() const { return every_.load() * factor_.load(); }

  // Registers a thread's wait for a lease that began at `since`. Returns a number for endLeaseWait().
  std::uint64_t beginLeaseWait(const void* thread, const std::string& place, Nanoseconds since);
  // Returns whether to record the wait, which has ended.
  Draw endLeaseWait(std::uint64_t wait);
  // Returns whether to record a release of a lease.
  Draw drawLeaseRelease(const std::string& place);
  // Removes the waits of a thread that ends.
  void leaveLeaseWaits(const void* thread);

  // Keeps the record for take(). If too many records are kept already, counts this one as left out instead. Drops a
  // record that was drawn for an earlier profile.
  void add(std::string record, Draw draw);
  struct Taken {
    std::vector<std::string> records;
    // The number of records left out since the last call.
    std::uint64_t leftOut = 0;
  };
  Taken take();

 private:
  static constexpr std::size_t kMostRecords = 16'384;
  // If kMostInWindow waits are recorded within kWindow, `every` doubles. If fewer than a quarter of that number are
  // recorded, `every` halves.
  static constexpr Nanoseconds kWindow = 100'000'000;
  static constexpr std::uint32_t kMostInWindow = 30;
  static constexpr Nanoseconds kMostFactor = 1 << 20;

  // A wait for a lease. It is recorded if it ends at `due` or later.
  struct LeaseWait {
    const void* thread;
    std::string place;
    Nanoseconds due;
  };
  using LeaseWaits = std::unordered_map<std::uint64_t, LeaseWait>;
  using DueWait = std::tuple<std::string, Nanoseconds, std::uint64_t>;

  void adapt();
  // Both need the mutex.
  void removeLeaseWait(LeaseWaits::iterator wait);
  void clearLeaseWaits();

  Mutex mutex_;
  bool running_ = false;
  Taken taken_;
  // The waits for leases that began during this profile, by number; and ordered by place, then by `due`.
  LeaseWaits leaseWaits_;
  std::set<DueWait> dueWaits_;
  std::uint64_t lastLeaseWait_ = 0;
  // The value that draw() returns for a recorded wait of the current profile. The last 253 profiles had other values.
  std::atomic<Draw> recorded_{Draw::kRecorded};
  std::atomic<Nanoseconds> threshold_{0};
  std::atomic<Nanoseconds> every_{1};
  // These values are estimates, because concurrent draws may overwrite each other's changes.
  std::atomic<Nanoseconds> factor_{1};
  std::atomic<Nanoseconds> windowEnd_{0};
  std::atomic<std::uint32_t> inWindow_{0};
  std::atomic<std::uint64_t> draws_{0};
};

}  // namespace stripelock
