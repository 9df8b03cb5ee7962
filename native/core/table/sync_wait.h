// One acquisition that blocks its thread: it spins and yields briefly, then sleeps in slices.

#pragma once

#include <vector>

#include "core/table/membership.h"
#include "core/table/wait_graph.h"

namespace stripelock {

// How long a thread sleeps before it checks for an interrupt and for a deadlock. A host that ends a thread does not
// wake that thread, so the thread notices this only at its next check. Waking and checking costs 10 us.
inline constexpr Nanoseconds kFirstSlice = 5'000'000;
inline constexpr Nanoseconds kSlice = 20'000'000;
// For a time of kHurry after a thread was interrupted, all waiting threads check once per kHurriedSlice. The reason: a
// process that ends interrupts its threads one after the other, and waits for each.
inline constexpr Nanoseconds kHurry = 200'000'000;
inline constexpr Nanoseconds kHurriedSlice = 1'000'000;

// Whether a thread was interrupted less than kHurry ago.
bool hurrying(Nanoseconds time);
// Call it when a thread was interrupted.
void hurryOthers(Nanoseconds time);

// Checks whether the thread must stop waiting and return to its host, because the host is ending the thread or its
// script. Called on the waiting thread, with no mutex locked.
struct Interrupt {
  // Whether the thread or its script is being ended. Called about every kSlice, and before the return from a wait that
  // was granted after its first slice.
  bool (*requested)(void* data) = nullptr;
  void* data = nullptr;
  // Whether the thread is being ended. This check is cheap, so it is called before the return from a wait that was
  // granted within its first slice.
  bool (*ending)(void* data) = nullptr;

  bool check() const { return requested && requested(data); }
  bool checkEnding() const { return ending && ending(data); }
};

struct SyncOutcome {
  enum class Status : std::uint8_t { kGranted, kTimedOut, kDeadlock, kInterrupted, kFailed };
  Status status;
  // If granted: whether the thread of an earlier holder ended without releasing one of the stripes.
  bool abandoned = false;
  // True if the acquisition had to wait, and was counted as contended.
  bool waited = false;
  // If timed out: the stripe that was not available.
  std::uint32_t stripe = 0;
  // If failed: the error of the gate.
  FileError error;
  // If kDeadlock: each thread waits for the next one, and the last for the first.
  std::vector<Blocked> cycle;
};

class SyncWait {
 public:
  SyncWait(Membership& membership, const Request& request, Interrupt interrupt);
  // Blocks this thread until the request is decided.
  SyncOutcome run();

 private:
  using Status = SyncOutcome::Status;

  // Takes stripes from `position` on. Returns the position of the first unavailable stripe, or the count.
  std::uint32_t spinTakeFrom(std::uint32_t position);
  bool spinTake(std::uint32_t stripe);
  bool take(std::uint32_t stripe);
  SyncOutcome block(std::uint32_t position);
  // Waits until the request is decided. The waiter must be linked.
  SyncOutcome wait();
  // Enters the gate; the thread must have all words. Returns false if the gate refused the stripe with the index
  // `refused_`. `waits`: see Gate::Ask.
  bool enter(bool waits);
  // Enters the gate. If the gate refuses, links the waiter again and returns false.
  bool enterOrCede();
  // Sleeps until the wait is decided. After kGranted, the waiter has all stripes. After any other status, the waiter
  // was withdrawn; or it was granted just before the withdrawal, and has all stripes.
  Status sleep();
  bool isEnding() const;
  // Continues the acquisition after the waiter was designated or granted, or has overtaken another waiter. Returns true
  // if it now has all stripes.
  bool advance();
  // Call it at the end of a slice. Returns kGranted if the thread may keep sleeping. Lets other waiters pass the
  // thread's async waiters.
  Status checkSlice(Nanoseconds time);
  // Overtakes async waiters that do not collect the stripe. Returns true if this waiter may now hold the stripe, or be
  // designated for it.
  bool overtake(bool last);
  bool tryDesignated();
  // Takes the remaining stripes, or links the waiter at the first unavailable one. Returns true if the waiter has all.
  bool takeRest();
  // Whether this thread itself holds a needed stripe, which it cannot release while it waits here.
  bool waitsForItself(std::uint32_t position, std::uint32_t& stripe);
  // Call it when enter() has returned true: the request is granted, unless the gate has failed.
  SyncOutcome granted() {
    if (error_) return failed(Status::kFailed, request_.count);
    return {.status = Status::kGranted, .abandoned = waiter_.abandoned, .error = {}, .cycle = {}};
  }
  bool holdsForGood(std::uint32_t stripe);
  // Releases stripes[0 … position), and returns the outcome.
  SyncOutcome failed(Status status, std::uint32_t position);

  Membership& membership_;
  Table& table_;
  Participant& thread_;
  const Request& request_;
  const Interrupt interrupt_;
  const Deadline deadline_;
  Waiter waiter_;
  Nanoseconds sliceEnd_ = 0;
  // Whether the first slice has ended.
  bool slept_ = false;
  std::vector<Blocked> cycle_;
  std::uint32_t refused_ = 0;
  bool entered_ = false;
  FileError error_;
};

}  // namespace stripelock
