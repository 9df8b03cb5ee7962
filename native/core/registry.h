// All participants and tables of the process.

#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/free_spans.h"
#include "core/membership.h"
#include "core/participant.h"

namespace stripelock {

struct LockMetrics {
  std::uint64_t locks = 0;
  std::uint64_t held = 0;
  std::uint64_t waiting = 0;
  std::uint64_t contended = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t aborts = 0;
  std::uint64_t deadlocks = 0;
  std::uint64_t abandoned = 0;
  std::array<std::uint64_t, kWaitRanges> waits{};
  std::uint64_t nanoseconds = 0;
};

// Threads that can use locks at the same time.
inline constexpr std::uint32_t kMaxSlots = 65535;

class Registry {
 public:
  static Registry& instance();

  // Differs between processes, and between copies of this code in one process: each has its own queues, so they must
  // not share a lock's memory.
  std::uint64_t id() const { return id_; }

  // A participant for the calling thread, or nullptr when all slots are taken.
  Participant* join(std::int32_t threadId, Participant::WakeLoop wakeLoop);
  // The thread ends: cancels what it waits for, frees what it holds, and gives its slot back. Call it on that thread.
  void leave(Participant& participant);
  // nullptr for a slot that was never used.
  Participant* bySlot(std::uint32_t slot);

  // The thread's membership of the table at that memory. The memory must stay until the membership is closed as many
  // times as it was opened. nullptr if the memory is in use with another number of stripes or another limit, or if it is
  // exact and this is not.
  Membership* open(Participant& participant, void* memory, std::uint32_t stripes, bool exact = false,
                   std::uint32_t limit = 1, const std::string& name = {});
  void close(Membership& membership);

  // What the locks with each name have counted, also those that nobody has open any more. No count ever falls, but for those of
  // what is so now: locks, held and waiting. Of the locks with more names than kMostNames that are gone, the rest is under
  // no name. All locks are kept open meanwhile, so it takes as long as to look at all their words.
  std::map<std::string, LockMetrics> metrics();

  // Sets or clears a bit of kObservedInt in the memory of all tables with one of these names, and of those that are opened
  // later. No names: all tables. JavaScript sees it at its next wait, in each thread.
  void observe(std::uint32_t bit, bool on, std::vector<std::string> names = {});

  // The memory of a table that this thread has just made is that span, and nobody else knows of it. Until share() is called,
  // it becomes free when the last membership ends, however the thread ends (keeps S1 of FreeSpans).
  void own(Membership& membership, const Span& span);
  // From now on others may open the table at any time: call it before a handle is made.
  void share(Membership& membership);
  FreeSpans& freeSpans() { return freeSpans_; }
  // FreeSpans::take for this thread, which allocates in that arena from now on, and in no other.
  std::optional<std::uint32_t> takeSpan(Participant& participant, std::uint64_t arena, std::uint32_t bytes);

 private:
  // What is observed under one bit.
  struct Observation {
    std::uint32_t bit;
    std::vector<std::string> names;
  };
  struct SharedTable {
    std::unique_ptr<Table> table;
    std::uint32_t members = 0;
    // Its memory, if only one thread knows of it.
    std::optional<Span> own;
    // What its memory had counted when it was opened: ended_ has that.
    LockMetrics before;
  };

  static constexpr std::size_t kMostNames = 1000;

  Registry();
  std::uint32_t observedOf(const Table& table) const;
  // The last thread has left it.
  void addEnded(const SharedTable& shared);
  // `processEnds`: nobody will look at the words again.
  void end(Membership& membership, bool processEnds = false);
  // Whether only one thread uses locks.
  bool isAlone();

  const std::uint64_t id_;
  FreeSpans freeSpans_;
  Mutex mutex_;
  std::unordered_map<void*, SharedTable> tables_;
  std::vector<Observation> observations_;
  // Of tables that have ended.
  std::map<std::string, LockMetrics> ended_;
  std::vector<std::uint32_t> freeSlots_;
  std::uint32_t usedSlots_ = 0;
  std::array<std::atomic<Participant*>, kMaxSlots + 1> participants_{};
};

}  // namespace stripelock
