// One acquisition that blocks its thread: it spins and yields briefly, then sleeps in slices.

#pragma once

#include <vector>

#include "core/membership.h"
#include "core/wait_graph.h"

namespace stripelock {

// How long a thread sleeps before it checks whether it is interrupted, and whether it waits in a cycle. Nothing wakes it
// when its host wants to end it, so that is how late it may notice. To wake up and check costs 10 us.
inline constexpr Nanoseconds kFirstSlice = 5'000'000;
inline constexpr Nanoseconds kSlice = 20'000'000;
// For kHurry after some thread was interrupted, all others check every kHurriedSlice: a process that ends interrupts
// one thread after the other, and waits for each.
inline constexpr Nanoseconds kHurry = 200'000'000;
inline constexpr Nanoseconds kHurriedSlice = 1'000'000;

// Whether some thread was interrupted less than kHurry ago.
bool hurrying(Nanoseconds time);
// Some thread was.
void hurryOthers(Nanoseconds time);

// Whether the thread must return to its host at once, because the host is ending the thread or the script that it runs.
// Called on the thread that waits, with no lock held.
struct Interrupt {
  // Whether the thread or its script is being ended. Called about every kSlice, and before returning from a wait that was
  // granted after its first slice.
  bool (*requested)(void* data) = nullptr;
  void* data = nullptr;
  // Whether the thread is being ended. Costs next to nothing: called before returning from a wait that was granted
  // within its first slice.
  bool (*ending)(void* data) = nullptr;

  bool check() const { return requested && requested(data); }
  bool checkEnding() const { return ending && ending(data); }
};

struct SyncOutcome {
  enum class Status : std::uint8_t { kGranted, kTimedOut, kDeadlock, kInterrupted };
  Status status;
  // If granted: the thread of an earlier holder of some stripe ended without releasing it.
  bool abandoned = false;
  // It was counted as one that had to wait.
  bool waited = false;
  // If timed out: the stripe that was not available.
  std::uint32_t stripe = 0;
  // If refused: each thread waits for the next, the last for the first.
  std::vector<Blocked> cycle;
};

class SyncWait {
 public:
  SyncWait(Membership& membership, const Request& request, Interrupt interrupt);
  // Blocks this thread until the request is decided.
  SyncOutcome run();

 private:
  using Status = SyncOutcome::Status;

  // Takes stripes from `position` on. Returns the position of the first that is unavailable, or the count.
  std::uint32_t spinTakeFrom(std::uint32_t position);
  bool spinTake(std::uint32_t stripe);
  bool take(std::uint32_t stripe);
  SyncOutcome block(std::uint32_t position);
  // The waiter is linked.
  SyncOutcome wait();
  // Sleeps until the wait is decided. kGranted: it has all stripes. Otherwise it is withdrawn, unless it was granted in
  // the same moment.
  Status sleep();
  bool isEnding() const;
  // Uses its turn, or the stripe that it overtook, if it has one. True: it has all stripes.
  bool advance();
  // At the end of a slice: kGranted if the thread may go on sleeping. Lets waiters behind its async waiters pass them.
  Status checkSlice(Nanoseconds time);
  // Overtakes an async waiter that does not come for the stripe. True: this wait may have the stripe, or its turn, now.
  bool overtake(bool last);
  bool tryDesignated();
  // Takes the stripes after the one just taken, or waits for the first that is unavailable. True: it has all.
  bool takeRest();
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
  // Its first slice has ended.
  bool slept_ = false;
  std::vector<Blocked> cycle_;
};

}  // namespace stripelock
