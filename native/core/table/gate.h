// Connects a table to other processes that lock the same file (process_file.h).
//
// Within the process, the word of a stripe determines the stripe's holder (table.h). In a table with a gate, a thread
// that has all words of an acquisition must also enter the gate, and holds the stripes only after that. The gate
// answers immediately, on that thread:
//
//   kEntered  The process holds the stripes. The thread must leave the gate before it changes the words.
//   kRefused  Another process holds one of the stripes, or comes first. The thread has entered none of the stripes. If
//             the thread waits, it cedes the refused stripe: the word becomes kElsewhere, as if another thread held the
//             stripe, and the thread joins the queue.
//   kFailed   The file cannot be used.
//
//  E1. A thread that has entered a stripe also has the stripe's word. So the gate can count the holders of this
//      process.
//  E2. Only running threads enter. A grant that an event loop has not collected does not exclude other processes, and
//      neither does a designated waiter. So the gate never revokes an entry.
//  E3. A stripe is ceded if its word is kElsewhere, or its queue is closed. It stays ceded only while an eligible
//      waiter is in its queue. settled() reports each change to the gate, with the stripe's shard locked. The gate
//      watches each ceded stripe. When other processes may have released the stripe, the gate reopens it, and the next
//      waiter tries.
//  E4. A thread that ends has both the word and the entry of a stripe, or neither. Membership::abandon() leaves the
//      gate, and then frees the word. Only C++ runs between the two steps, so the host cannot end the thread there.
//  E5. A ceded stripe has one watcher: the thread of its first eligible waiter if that thread blocks, otherwise the
//      gate's own thread. settled() chooses the watcher, and wakes it if it is new. settled() runs with the shard
//      locked, so the queue cannot change meanwhile. Otherwise a waiter that has left the queue could become the
//      watcher, and no thread would watch the stripe.
//
// Lock order: a shard, then the gate's own mutex.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/file_error.h"
#include "core/base/sync.h"
#include "core/table/lock_word.h"
#include "core/table/mode.h"

namespace stripelock {

class Participant;
class Table;
struct Waiter;

// The value of a word, in place of a slot, while another process holds the stripe or comes first.
inline constexpr std::uint32_t kElsewhere = kHolderMask;

class Gate {
 public:
  struct Ask {
    Table& table;
    const std::uint32_t* stripes;
    std::uint32_t count;
    Mode mode;
    // When the acquisition began, on the clock of now(). 0 if it has just begun.
    Nanoseconds since;
    std::int32_t threadId;
    // waits: whether the acquisition waits after a refusal. blocks: whether its thread then blocks.
    bool waits;
    bool blocks;
  };
  struct Entry {
    enum class How : std::uint8_t { kEntered, kRefused, kFailed };
    How how = How::kEntered;
    // True if an earlier holder died without releasing.
    bool abandoned = false;
    // If refused: the index of the refused stripe.
    std::uint32_t refused = 0;
    FileError error;
  };

  virtual ~Gate() = default;
  // Call it once with the gate's table, whose memory the gate owns.
  virtual void attach(std::weak_ptr<Table> table) = 0;
  virtual Entry enter(const Ask& ask) = 0;
  // Call it before the word changes. `died`: true if the holder's thread ended without releasing, or if the holder saw
  // such a death and now rolls back. `awaited`: true if other threads of the process wait. Returns true if another
  // process comes first; the caller then cedes the stripe.
  virtual bool leave(std::uint32_t stripe, std::uint32_t count, bool died, bool awaited) = 0;
  // Call it with the stripe's shard locked, after a release or a change of the queue. `word`: the stripe's word now.
  // `called`: true if a waiter is designated. `ceded`: see E3. `first`: the first eligible waiter of a ceded stripe, or
  // nullptr if no waiter in its queue is eligible.
  virtual void settled(std::uint32_t stripe, std::uint32_t word, bool called, bool ceded,
                       const Waiter* first) = 0;
  // Call it after a waiting thread or a release has ceded the stripe. `blocked`: the calling thread if it will call
  // sleep() next, otherwise nullptr. Reopens the stripe if that is already possible. Otherwise wakes the new watcher.
  virtual void ceded(std::uint32_t stripe, const Participant* blocked) = 0;
  // Reopens the stripe if it is ceded and other processes have released it. Returns true if the stripe stays ceded. Call
  // it with no mutex locked.
  virtual bool look(std::uint32_t stripe) = 0;
  // Blocks the calling thread, as its parker does in a table without a gate. Returns when other processes may have
  // released the stripe, the parker is unparked, or the deadline passes. Returns false without sleeping if the thread
  // is not the stripe's watcher.
  virtual bool sleep(const Ask& ask, std::uint32_t stripe, Participant& blocked, Deadline deadline,
                     Nanoseconds& poll) = 0;
};

}  // namespace stripelock
