// The stripes of one lock: a word in shared memory for each stripe, and a queue of its waiters.
//
// Any thread may change a word, but only by compare-and-swap. Most changes happen in JavaScript, without a mutex
// (lock_word.h). The queues are guarded by mutexes, one for each shard. A shard is a range of neighbouring stripes.
//
// table.cc: how waiters queue, take stripes and withdraw. table_grants.cc: how a stripe is released and granted
// again.
//
// Invariants, for each stripe, whenever its shard is not locked:
//   I1  The word records the stripe's holders: a holder is added or removed only by changing the word.
//   I2  kQueued is set only while the stripe is held.
//   I3  If an eligible waiter is in the queue, then kQueued is set, or one waiter is designated. So no waiter is
//       forgotten: either the next release calls leave(), or the designated waiter is about to try. An async waiter is
//       not eligible while its thread blocks in a sync wait. An async waiter that holds nothing is also not eligible
//       while its thread is known to be away from its event loop. AsyncWaits::resettle serves ineligible waiters later.
//   I4  At most one waiter is designated: woken to try for the free stripe. The designated waiter takes the stripe, or
//       sets kQueued and sleeps again, or withdraws; then the next waiter is served.
//   I5  A waiter is granted or withdrawn exactly once. Until then, it is in at most one queue; afterwards, it is in no
//       queue.
//   I6  Until it is granted, a waiter holds exactly stripes[0 … position).
//   I7  An async waiter's thread collects the waiter's grant or designation in its event loop. Until then, other
//       threads can revoke it (AsyncWaits::revoke). The waiter then waits again in its old place, and is not granted
//       twice.
//
// Invariants for the stripes of a table with permits (limit() > 1). Such stripes are held only in the counted mode.
//   P1  A stripe has at most limit() holds. Its word counts them (I1), and only a compare-and-swap from a lower count
//       adds a hold (withHold, and the fast path in JavaScript).
//   P2  kQueued is set only while all permits are taken. While an eligible waiter is in the queue, no permit is free,
//       except one for a designated waiter. Only sync waiters are designated, because their blocked threads wake soon.
//       Async waiters are always handed their permits.
//   P3  After a death, each new holder sees kAbandoned. The first one sets kDeathReported, and the next release then
//       clears both flags. A roll-back or another death clears only kDeathReported, so new holders keep seeing the
//       death. A word has no room to count the holders that saw the death, so a roll-back must assume that no other
//       holder has seen it. So a death may be reported more often than needed, but it is never lost.
//
// Each permit of a thread is counted both in the word and in the thread's own counts (Membership::sharesOf). A thread
// cannot end between the changes of the two counts: in JavaScript, one directly follows the other
// (lib/engine/fast-path.ts), and a C++ call is never interrupted. When a thread dies, Membership::abandon() removes all
// its permits from the word in one exchange, which also hands them over. So no permit is lost, and none is released
// twice.
//
// Barging and fairness. A release with waiters either hands the stripe over, or frees it and designates the first
// waiter. That waiter's thread wakes and competes with all other threads. Running threads usually win, which gives high
// throughput. kBargingPeriod limits how long running threads may overtake the waiters. The period starts when the first
// waiter queues, and restarts when the head of the queue is served. The first release after the period hands the stripe
// over to the head, unless a waiter is designated. So the head waits until the period ends, then until a designated
// waiter's thread has tried, and then for one hold. If an event loop does not collect a grant or a designation, the
// waiters behind revoke that grant or designation (revocation.h). While async acquisitions keep an event loop busy,
// JavaScript calls AsyncWaits::take from time to time. If a release leaves one permit free, the same rule applies to
// this permit. If several permits are free, they are handed over immediately.
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
  // The holder's slot. Used only if the word names its holder.
  std::uint32_t slot = 0;
  // The number of holds to release. Used only if the word counts holds.
  std::uint32_t count = 1;
  // Whether the stripe is ceded, because another process comes before the waiters (gate.h).
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
  // Unique among all tables of the process, including closed ones.
  std::uint64_t id() const { return id_; }
  // The flags of the active observers (layout.h).
  Word& observed() { return words_[kObservedInt]; }
  Word& word(std::uint32_t stripe) { return words_[kHeaderInts + (std::size_t{stripe} << kStripeShift)]; }
  Cell& cell(std::uint32_t index) { return cells_[index]; }
  // The number of waiters that ever arrived at the stripe's queue. Changes only with the shard locked; JavaScript may
  // read it at any time.
  Word& arrivals(std::uint32_t stripe) { return *(&word(stripe) + kArrivalsInt); }
  // nullptr unless the table is exact.
  KeyTable* keys() const { return keys_.get(); }
  // nullptr if only this process can hold the stripes.
  Gate* gate() const { return gate_.get(); }
  // Stripes at this index and above were never used.
  std::uint32_t used() const { return keys_ ? keys_->used() : stripes_; }

  // Tries once to take the stripe, without locking its shard. On success, sets `abandoned` if an earlier holder's
  // thread ended without releasing; never clears `abandoned`.
  bool tryTake(std::uint32_t stripe, std::uint32_t slot, Mode mode, bool& abandoned);

  // Whether an eligible waiter is in the stripe's queue. Locks nothing, so the answer may already be outdated.
  bool isAwaited(std::uint32_t stripe) {
    return (word(stripe).load() & kQueued) != 0 || queueOf(stripe).designated.load() != nullptr;
  }

  // Takes the waiter's stripes from index `from` on. Returns true if all are taken; otherwise the waiter is linked at
  // the first unavailable one. `held`: the locked shard of the queue from which the caller has just removed the waiter.
  // nullptr if the caller is the waiter's own thread and the waiter is not linked. `wakes`: unless nullptr, a waiter
  // that now has all stripes is marked as granted, and its owner is added to `wakes`.
  bool proceed(Waiter& waiter, std::uint32_t from, Mutex* held, WakeSet* wakes);

  // Leaves the gate, if the table has one, and then releases the stripe. `died`: see Gate::leave().
  bool leaveEntered(std::uint32_t stripe, Leave leave, bool died, Participant* actor, WakeSet& wakes);
  // Releases a stripe, and grants it to the next waiters as the queue requires. Returns false if the word does not
  // contain this hold.
  bool leave(std::uint32_t stripe, const Leave& leave, Participant* actor, WakeSet& wakes);
  // Grants the stripe as the queue now requires, and sets or clears kQueued. Releases nothing. Call it with the
  // stripe's shard locked, after the stripe's queue changed, or after a waiter in that queue became eligible.
  void regrant(std::uint32_t stripe, Participant* actor, WakeSet& wakes);

  // Releases stripes[0 … count) of an acquisition that failed or waits again, last first.
  void rollBack(const std::uint32_t* stripes, std::uint32_t count, Participant& owner, Mode mode);

  // Locks the shard of Waiter::stripe(). While this shard is locked, no other thread moves the waiter.
  Lock lockFor(const Waiter& waiter);
  // Unlinks a waiter for good, and serves the waiters that it blocked. Returns false if it was already granted. The
  // waiter keeps the stripes that it has taken; the caller rolls them back.
  bool withdraw(Waiter& waiter);
  // Call it if a designated waiter found its stripe held. Returns true if the waiter takes the stripe after all.
  // Otherwise the waiter waits again in its old place.
  bool retryDesignated(Waiter& waiter);
  // If a designated async waiter has not taken the stripe yet, tries to take the stripe for this waiter instead. On
  // success, unlinks this waiter and returns true. Call it for a sync waiter that has slept long, or for any waiter
  // that is about to time out.
  bool overtakeDesignated(Waiter& waiter);
  // Call it after a designated waiter has taken its stripe. Unlinks that waiter, and serves the waiters behind it.
  void serveDesignated(Waiter& waiter);
  // Links an unlinked waiter that holds nothing into the queue of its first stripe, ordered by arrival time. Call it
  // on the waiter's own thread, or with its owner's revoke mutex locked.
  void requeue(Waiter& waiter);

  // ── tables with a gate ──

  // A waiter's request to the gate. `waits`: see Gate::Ask.
  Gate::Ask askFor(const Waiter& waiter, bool waits);
  // Call it on the waiter's own thread after the gate refused stripes[index]. The waiter must be unlinked and hold all
  // of its stripes. It keeps the stripes before stripes[index], and joins the queue of stripes[index], ordered by
  // arrival time.
  void cede(Waiter& waiter, std::uint32_t index);
  // Call it when other processes have released the stripe. The next waiter then tries.
  void reopen(std::uint32_t stripe);
  // The first eligible waiter of a ceded stripe. `any`: false if there is no such waiter, or if the stripe is not
  // ceded.
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
    // Whether the stripe is ceded (E3 in gate.h). If so, `first` is the first eligible waiter, or nullptr.
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
  Waiter* nearest(const StripeQueue& queue, Waiter& first, std::uint32_t left,
                  const Participant* actor) const;
  // Call it when a release designates or grants the waiter. Decides at random whether a profile records the wait (a
  // draw).
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

// Returns true if the waiter is not eligible now (I3). In that case, also marks the waiter's thread, so that the thread
// serves the waiter later (Participant::passOver).
bool passOver(const Waiter& waiter);
// The first eligible waiter from `from` on, or nullptr. Marks the threads of the ineligible waiters before it.
Waiter* passOverIneligible(Waiter* from);

}  // namespace stripelock
