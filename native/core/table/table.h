// The stripes of one lock: their words in the shared memory, and a queue for each.
//
// Any thread may change a word, but only by compare-and-swap. Most changes happen in JavaScript, without a mutex
// (lock_word.h). Mutexes guard the queues, one for each shard; a shard is a range of neighbouring stripes.
//
// table.cc: how waiters queue, take stripes and withdraw. table_grants.cc: how a stripe is released and granted
// again.
//
// Invariants, for each stripe, whenever its shard is not locked:
//   I1  A word names its holders: a holder enters or leaves only by changing the word.
//   I2  kQueued is set only while the stripe is held.
//   I3  If an eligible waiter is in the queue, then kQueued is set, or one waiter is designated. So each release that
//       a waiter needs calls leave(), or a designated waiter is about to try. An async waiter is not eligible while
//       its thread blocks in a sync wait. An async waiter that holds nothing is also not eligible while its thread is
//       known to be away from its event loop. AsyncWaits::resettle serves such waiters later.
//   I4  At most one waiter is designated. It takes the stripe, or sets kQueued and sleeps again, or withdraws
//       and passes the designation on.
//   I5  A waiter is in at most one queue, and in none once it is granted or withdrawn; it is granted or
//       withdrawn exactly once.
//   I6  Until it is granted, a waiter holds exactly stripes[0 … position).
//   I7  Other threads can revoke a grant or a designation of an async waiter until its thread collects it
//       (AsyncWaits::revoke). The waiter then waits again in its old place, and is not granted twice.
//
// Invariants for the stripes of a table with permits (limit() > 1). These are held only in the counted mode. P1 A
//   stripe has at most limit() holds. Its word counts them (I1), and only a compare-and-swap from a lower count adds
//       a hold (withHold, and the fast path in JavaScript).
//   P2  kQueued is set only while all permits are taken. While an eligible waiter is in the queue, no permit is free,
//       except one for a designated waiter. Only a waiter whose thread blocks is designated, because that thread wakes
//       soon. Async waiters are handed their permits.
//   P3  After a death, each new holder sees kAbandoned. The first one sets kDeathReported, and the next release then
//       clears both flags. A roll-back or another death clears only kDeathReported, so new holders keep seeing the
//       death. A word has no room to count the holders that saw the death, so the holder that rolls back may be the
//       only one that saw it. Therefore a death can be reported too often, but never too rarely.
//
// When a thread dies, its permits are in both the word and its shares. The thread cannot end between the two changes:
// they follow each other directly in JavaScript (lib/engine/fast-path.ts), and a C++ call is never cut off.
// Membership::abandon() removes all shares from the word in one exchange, which also hands the permits over. So no
// permit is lost for good, and none is released twice.
//
// Barging and fairness. A release with waiters either hands the stripe over, or frees it and designates the first
// waiter. That waiter's thread wakes and competes with all other threads. Running threads usually win, which gives high
// throughput. kBargingPeriod limits how long they may do so. The period starts when the queue forms, and restarts when
// the head of the queue is served. The first release after the period hands over to the head, unless a waiter is
// designated. So the head waits until the period ends, then until the designated thread wakes and tries, and then for
// one hold. An event loop that does not collect its turn loses the turn to the waiters behind it (revocation.h). While
// async acquisitions keep an event loop busy, the layer above calls AsyncWaits::take from time to time. The last free
// permit of a stripe follows the same rule; several free permits are handed over.
//
// Modelled after "eventual fairness" in parking_lot (Amanieu d'Antras) and WebKit's WTF::Lock (Filip Pizlo), but timed
// per queue.
//
// Lock order: the shard of a key (key_table.h; only for inspection), WaitGraph, the revoke mutex of one participant,
// shards by rising index, leaf locks. The leaf locks are Table::membersMutex, the mutex of Notes,
// Participant::readyMutex_ and Participant::wakeMutex_.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/zeroed.h"
#include "core/table/gate.h"
#include "core/table/key_table.h"
#include "core/table/layout.h"
#include "core/table/lock_word.h"
#include "core/table/mode.h"
#include "core/table/notes.h"
#include "core/table/waiter.h"
#include "core/table/wake_set.h"

namespace stripelock {

// How a stripe is released.
struct Leave {
  enum class How : std::uint8_t {
    kRelease,   // by a holder that has finished
    kRollBack,  // by an acquisition that failed or waits again; the next holder sees the same `abandoned`
    kDie,       // on behalf of a holder whose thread ended
  };
  How how;
  Mode mode = Mode::kExclusive;
  // The slot of the holder, if the word names its holder.
  std::uint32_t slot = 0;
  // The number of holds to release, if the word counts them.
  std::uint32_t count = 1;
  // Another process comes before the waiters, so the stripe is ceded (gate.h).
  bool cedes = false;
};

class Table {
 public:
  // `exact`: each key in use has a separate stripe (key_table.h). `limit`: the number of permits of each stripe; 1
  // means that the table has no permits.
  Table(void* memory, std::uint32_t stripes, bool exact = false, std::uint32_t limit = 1,
        std::string name = {}, std::shared_ptr<Gate> gate = nullptr);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  std::uint32_t stripes() const { return stripes_; }
  std::uint32_t limit() const { return limit_; }
  void* memory() const { return memory_; }
  // The name given by the first lock that opened the table.
  const std::string& name() const { return name_; }
  // Unique in the process, also among tables that were closed.
  std::uint64_t id() const { return id_; }
  // The flags of the active observers (layout.h).
  Word& observed() { return words_[kObservedInt]; }
  Word& word(std::uint32_t stripe) { return words_[kHeaderInts + (std::size_t{stripe} << kStripeShift)]; }
  Cell& cell(std::uint32_t index) { return cells_[index]; }
  // The number of waiters that ever arrived at the stripe's queue. Changes under the shard; JavaScript reads it at
  // any time.
  Word& arrivals(std::uint32_t stripe) { return *(&word(stripe) + kArrivalsInt); }
  // nullptr unless the table is exact.
  KeyTable* keys() const { return keys_.get(); }
  // nullptr unless other processes can hold the stripes, too.
  Gate* gate() const { return gate_.get(); }
  // Stripes from this index on were never used.
  std::uint32_t used() const { return keys_ ? keys_->used() : stripes_; }

  // One attempt for one stripe, without a lock. On success sets `abandoned` if an earlier holder's thread ended without
  // releasing; never clears it.
  bool tryTake(std::uint32_t stripe, std::uint32_t slot, Mode mode, bool& abandoned);

  // Whether an eligible waiter is in the stripe's queue. Locks nothing, so the answer may be outdated at once.
  bool isAwaited(std::uint32_t stripe) {
    return (word(stripe).load() & kQueued) != 0 || queueOf(stripe).designated.load() != nullptr;
  }

  // Takes the waiter's stripes from index `from` on. Returns true if all are taken; otherwise the waiter is linked at
  // the first unavailable one. `held`: the locked shard from whose queue the caller removed the waiter. It is nullptr
  // if the caller is the waiter's own thread and the waiter is not linked. `wakes`: if given, a waiter that has all
  // stripes is marked as granted, and its owner is added to `wakes`.
  bool proceed(Waiter& waiter, std::uint32_t from, Mutex* held, WakeSet* wakes);

  // Leaves the gate, if the table has one, and then releases the stripe. `died`: see Gate::leave().
  bool leaveEntered(std::uint32_t stripe, Leave leave, bool died, Participant* actor, WakeSet& wakes);
  // Releases a stripe, and grants it to the next waiters as the queue requires. Returns false if the word does not
  // contain this hold.
  bool leave(std::uint32_t stripe, const Leave& leave, Participant* actor, WakeSet& wakes);
  // Grants the stripe as the queue now requires, and sets or clears kQueued. Ends no hold. Call it with the stripe's
  // shard locked, after its queue changed or one of its waiters became eligible.
  void regrant(std::uint32_t stripe, Participant* actor, WakeSet& wakes);

  // Releases stripes[0 … count) of an acquisition that failed or waits again, last first.
  void rollBack(const std::uint32_t* stripes, std::uint32_t count, Participant& owner, Mode mode);

  // Locks the shard under which the waiter is linked, or was linked when it was granted or withdrawn.
  Lock lockFor(const Waiter& waiter);
  // Unlinks a waiter for good, and serves the waiters that it blocked. Returns false if it was already granted. The
  // waiter keeps the stripes that it has taken; the caller rolls them back.
  bool withdraw(Waiter& waiter);
  // Call it if a designated waiter found its stripe held. Returns true if the waiter takes the stripe after all.
  // Otherwise it waits again in its place.
  bool retryDesignated(Waiter& waiter);
  // Takes the waiter's stripe if the stripe is free because a designated async waiter has not taken it yet. Call it for
  // a sync waiter that has slept long, or for any waiter that is about to time out. Returns true if the waiter has
  // taken the stripe; it is then unlinked.
  bool overtakeDesignated(Waiter& waiter);
  // Call it after a designated waiter has taken its stripe. Unlinks it, and serves the waiters behind it.
  void serveDesignated(Waiter& waiter);
  // Links an unlinked waiter that holds nothing into the queue of its first stripe, ordered by arrival time. Call it
  // on the waiter's own thread, or with its owner's revoke mutex locked.
  void requeue(Waiter& waiter);

  // ── tables with a gate ──

  // A waiter's request to the gate. `waits`: see Gate::Ask.
  Gate::Ask askFor(const Waiter& waiter, bool waits);
  // Call it on the waiter's own thread, if the gate refused stripes[index] to an unlinked waiter that holds all of its
  // stripes. The waiter keeps the stripes before stripes[index], and joins the queue of stripes[index], ordered by
  // arrival time.
  void cede(Waiter& waiter, std::uint32_t index);
  // Call it when other processes have released the stripe. The next waiter then tries.
  void reopen(std::uint32_t stripe);
  // The first eligible waiter of a stripe that was ceded.
  struct Awaited {
    bool any = false;
    bool shared = false;
    Nanoseconds since = 0;
    std::int32_t threadId = 0;
  };
  Awaited awaited(std::uint32_t stripe);

  // Nanoseconds until the barging period of the stripe's queue ends; negative if it has ended.
  Nanoseconds fairIn(std::uint32_t stripe);

  Mutex& shardOf(std::uint32_t stripe) { return shards_[stripe >> shardShift_].mutex; }
  StripeQueue& queueOf(std::uint32_t stripe) { return queues_[stripe]; }

  Notes notes;

  // Guards `members`, the threads that use this table. While it is locked, Membership::sharesOf may be called on each
  // member.
  Mutex membersMutex;
  std::vector<Membership*> members;

 private:
  struct alignas(64) Shard {
    Mutex mutex;
  };
  // The outcome of a release or of a change of the queue: the next word, and the waiters to grant or to designate.
  struct Plan {
    std::uint32_t next;
    Waiter* designate = nullptr;
    // The waiters to grant together, chained through nextReady.
    Waiter* grant = nullptr;
    Nanoseconds fairAt = 0;
    // The next value of StripeQueue::closed.
    bool closed = false;
    // Whether the stripe is ceded (E3 in gate.h), and then its first eligible waiter.
    bool ceded = false;
    const Waiter* first = nullptr;
  };

  bool takeOrLink(Waiter& waiter, std::uint32_t stripe);
  // Whether the stripe is ceded (E3 in gate.h). Call it with the stripe's shard locked.
  bool isCeded(std::uint32_t stripe) {
    return queueOf(stripe).closed || isHeldAloneBy(word(stripe).load(), kElsewhere);
  }
  // The word after the waiter has taken the stripe; nullopt if the waiter must wait.
  std::optional<std::uint32_t> wordIfTaken(const Waiter& waiter, std::uint32_t word,
                                           const StripeQueue& queue) const;
  // Implements leave() and, with nullptr, regrant().
  bool changeAndGrant(std::uint32_t stripe, const Leave* leave, Participant* actor, WakeSet& wakes);
  Plan plan(StripeQueue& queue, std::uint32_t left, const Participant* actor) const;
  // For a stripe whose queue is closed, or whose word is kElsewhere.
  Plan planElsewhere(StripeQueue& queue, std::uint32_t left) const;
  // These three choose the waiters to grant, and the next word. planForOne() also chooses between a hand-over and a
  // designation.
  Plan planBesideDesignated(StripeQueue& queue, std::uint32_t left) const;
  Plan planForSeveral(Waiter* waiter, std::uint32_t left, std::uint32_t kept) const;
  Plan planForOne(StripeQueue& queue, Waiter& first, std::uint32_t left, const Participant* actor) const;
  Waiter* nearest(Waiter& first, std::uint32_t left, const Participant* actor) const;
  // Call it when a release designates or grants the waiter. Draws whether a profile records the wait.
  void drawFor(Waiter& waiter, WakeSet& wakes);
  void carryOut(std::uint32_t stripe, const Plan& plan, WakeSet& wakes);
  void complete(Waiter& waiter, WakeSet& wakes);
  void unlinkServed(Waiter& waiter, std::uint32_t stripe, WakeSet& wakes);

  // Declared first, so destroyed last: the gate owns the memory.
  const std::shared_ptr<Gate> gate_;
  void* const memory_;
  Word* const words_;
  Cell* const cells_;
  const std::uint32_t stripes_;
  const std::uint32_t limit_;
  const std::string name_;
  const std::uint64_t id_;
  std::uint32_t shardShift_ = 0;
  std::unique_ptr<Shard[]> shards_;
  const Zeroed<StripeQueue> queues_;
  std::unique_ptr<KeyTable> keys_;
};

// Whether the waiter is not eligible now (I3). If so, marks its thread, which serves the waiter later
// (Participant::passOver).
bool passOver(const Waiter& waiter);
// The first eligible waiter from `from` on, or nullptr. Marks the threads of the ineligible waiters before it.
Waiter* passOverIneligible(Waiter* from);

}  // namespace stripelock
