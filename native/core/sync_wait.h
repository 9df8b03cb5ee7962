// One acquisition that blocks its thread: it spins and yields briefly, then sleeps in slices.

#pragma once

#include "core/membership.h"

namespace stripelock {

// How long a thread sleeps before it checks whether it is interrupted, and whether it waits in a cycle.
inline constexpr Nanoseconds kFirstSlice = 5'000'000;
inline constexpr Nanoseconds kSlice = 20'000'000;
// If something wakes the thread when it must end (Interrupt::descriptor), its slices grow with the time waited, up to
// this: a cycle that closes while all its threads sleep must be found within 100 ms. Waking up to check costs 10 us.
inline constexpr Nanoseconds kLongestSlice = 80'000'000;
// A slice is then 1/kPatience of the time waited, so an interruption may be noticed late by that fraction.
inline constexpr Nanoseconds kPatience = 8;
// If nothing wakes the thread: for kHurry after some thread was interrupted, all others check every kHurriedSlice,
// since a process that ends interrupts one thread after the other, and waits for each.
inline constexpr Nanoseconds kHurry = 200'000'000;
inline constexpr Nanoseconds kHurriedSlice = 1'000'000;

// Whether some thread was interrupted less than kHurry ago.
bool hurrying(Nanoseconds time);

class SyncWait {
 public:
  SyncWait(Membership& membership, const Request& request, Interrupt interrupt);
  SyncOutcome run();

 private:
  using Status = SyncOutcome::Status;

  // Takes stripes from `position` on. Returns the position of the first that is unavailable, or the count.
  std::uint32_t spinTakeFrom(std::uint32_t position);
  bool spinTake(std::uint32_t stripe);
  bool take(std::uint32_t stripe);
  SyncOutcome block(std::uint32_t position);
  SyncOutcome wait();
  // The end of a slice that begins now.
  Nanoseconds nextSliceEnd(Nanoseconds time) const;
  // True: the waiter is unlinked, withdrawn or granted, and the caller gives back what it has.
  bool interrupted(SyncOutcome& outcome);
  // At the end of a slice: checks whether the thread is interrupted, and whether it waits in a cycle. Lets waiters
  // behind its async waiters pass them. True: the wait is decided.
  bool checkInterruptAndCycle(SyncOutcome& outcome);
  // Overtakes an async waiter that does not come for the stripe. True: this wait may have the stripe, or its turn, now.
  bool overtake(bool last);
  bool tryDesignated();
  // Takes the stripes after the one just taken, or waits for the first that is unavailable. True: it has all.
  bool goOn();
  // Whether its own thread holds a needed stripe and will not release it while it waits here.
  bool waitsForItself(std::uint32_t position, std::uint32_t& stripe);
  SyncOutcome granted() const {
    return {.status = Status::kGranted, .abandoned = waiter_.abandoned, .cycle = {}};
  }
  bool holdsForGood(std::uint32_t stripe);
  // Gives back stripes[0 … position).
  SyncOutcome failed(Status status, std::uint32_t position);

  Membership& membership_;
  Table& table_;
  Participant& thread_;
  const Request& request_;
  const Interrupt interrupt_;
  const Deadline deadline_;
  Waiter waiter_;
  Nanoseconds sliceEnd_ = 0;
  bool steppedAside_ = false;
};

}  // namespace stripelock
