// What a table asks before one of its stripes counts as held, if holders outside the process count, too: locks of files
// (process_file.h).
//
// The word of a stripe settles who holds it within the process, by the rules of table.h. A thread that has all words of an
// acquisition enters the gate; what it holds counts only then. The gate answers at once, on that thread:
//
//   kEntered  The process has the stripes. A thread that has entered leaves the gate before it changes the words.
//   kRefused  Another process has one of them, or is to have it first. It has entered none. A thread that waits cedes the
//             stripe: the word becomes kElsewhere, as if another thread held it, and the thread waits in its queue.
//   kFailed   It can have none of them.
//
//  E1. A thread that has entered a stripe has its word. So the gate counts the holders of the process.
//  E2. Only running threads enter: neither a grant that an event loop has not taken nor a designated waiter keeps other
//      processes out. So nothing is ever taken back from the gate.
//  E3. A stripe is ceded if its word is kElsewhere, or its queue is closed. It is ceded only while an eligible waiter is in
//      its queue, and the gate knows that it is: settled() reports each change, under the stripe's shard. The gate watches
//      each ceded stripe, and reopens it when other processes may have left it. Then the next waiter tries.
//  E4. A thread ends with its words and what it has entered both held or both free: Membership::abandon() leaves the gate
//      first. Between the two only C++ runs, which no host cuts off.
//
// Lock order: a shard, then the gate's own mutex.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/file_error.h"
#include "core/lock_word.h"
#include "core/mode.h"
#include "core/sync.h"

namespace stripelock {

class Participant;
class Table;

// In the word of a stripe in place of a slot: other processes have the stripe, or are to have it first.
inline constexpr std::uint32_t kElsewhere = kHolderMask;

class Gate {
 public:
  struct Ask {
    Table& table;
    const std::uint32_t* stripes;
    std::uint32_t count;
    Mode mode;
    // On the clock of now(). 0 if it has just begun.
    Nanoseconds since;
    std::int32_t threadId;
    // It waits if it is refused; and its thread blocks while it does.
    bool waits;
    bool blocks;
  };
  struct Entry {
    enum class How : std::uint8_t { kEntered, kRefused, kFailed };
    How how = How::kEntered;
    // An earlier holder died.
    bool abandoned = false;
    // The index of the stripe that was refused.
    std::uint32_t refused = 0;
    FileError error;
  };

  virtual ~Gate() = default;
  // The table's memory is this gate's.
  virtual void attach(std::weak_ptr<Table> table) = 0;
  virtual Entry enter(const Ask& ask) = 0;
  // `died`: the holder did not release. `awaited`: other threads of the process wait. True: another process goes before
  // them, so the caller cedes the stripe.
  virtual bool leave(std::uint32_t stripe, std::uint32_t count, bool died, bool awaited) = 0;
  // The stripe was left, or its queue has changed. `ceded`: see E3. `free`: the word became free, and no eligible waiter wants
  // it. With the stripe's shard locked.
  virtual void settled(std::uint32_t stripe, bool ceded, bool free) = 0;
  // A thread that waits has ceded the stripe, or a release. `blocked`: the thread, if it is about to call sleep().
  virtual void ceded(std::uint32_t stripe, const Participant* blocked) = 0;
  // Reopens the stripe if it is ceded and other processes have left it. Otherwise sees to it that it is watched. With nothing
  // locked. `ended`: a blocked thread that has just given up its wait for the stripe.
  virtual void look(std::uint32_t stripe, const Participant* ended) = 0;
  // Sleeps in place of the thread's parker, until other processes may have left the stripe, the parker is unparked, or the
  // deadline passes. False: it did not sleep, because the stripe is not ceded, or another waiter watches it.
  virtual bool sleep(std::uint32_t stripe, Participant& blocked, Deadline deadline, Nanoseconds& poll) = 0;
};

}  // namespace stripelock
