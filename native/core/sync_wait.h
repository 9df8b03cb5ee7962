// One acquisition that blocks its thread: spins and yields briefly, then sleeps in slices.

#pragma once

#include "core/membership.h"

namespace stripelock {

// How long a thread sleeps before it looks whether it is being ended, and whether it waits in a circle.
inline constexpr Nanoseconds kFirstSlice = 5'000'000;
inline constexpr Nanoseconds kSlice = 20'000'000;

class SyncWait {
 public:
  SyncWait(Membership& membership, const Request& request, Interrupt interrupt);
  SyncOutcome run();

 private:
  using Status = SyncOutcome::Status;

  // Takes stripes from `position` on. Returns the position of the first that is not to be had, or the count.
  std::uint32_t spinTakeFrom(std::uint32_t position);
  bool spinTake(std::uint32_t stripe);
  bool take(std::uint32_t stripe);
  SyncOutcome block(std::uint32_t position);
  SyncOutcome wait();
  // At the end of a slice. True: it is decided.
  bool inspectSelf(SyncOutcome& outcome);
  // Gets its stripe past an async waiter that does not come for it. True: it may have it, or its turn, now.
  bool overtake(bool last);
  bool tryDesignated();
  // Takes the stripes after the one just taken, or waits for the first that is not to be had. True: has all.
  bool goOn();
  // Whether its own thread holds, for good, a stripe that is still wanted.
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
