// The stripes of one lock: their words in the shared memory, and a queue for each.
//
// Any thread changes words, by compare-and-swap only, mostly from JavaScript and without a lock (lock_word.h). Mutexes
// guard the queues, one for each shard; a shard is a range of neighbouring stripes.
//
// table.cc has how waiters come, take and go; table_grants.cc what a release does, and who is granted the stripe.
//
// Invariants, for each stripe, whenever its shard is not locked:
//   I1  A word names its holders: a holder enters or leaves only by changing the word.
//   I2  kQueued is set only while the stripe is held.
//   I3  If an eligible waiter is in the queue, then kQueued is set, or one waiter is designated. (An async waiter is
//       not eligible while its thread blocks in a sync wait, or while it holds nothing and its thread was found to
//       be away from its event loop. Such waiters come back through AsyncWaits::resettle.)
//       So a release that matters to somebody calls leave() here, or a designated waiter is about to look.
//   I4  At most one waiter is designated. It takes the stripe, or sets kQueued and sleeps again, or withdraws
//       and passes the designation on.
//   I5  A waiter is in at most one queue, and in none once it is granted or withdrawn; it is granted or
//       withdrawn exactly once.
//   I6  A waiter holds stripes[0 … position) and no other of its stripes until it is granted.
//   I7  Others can take back what an async waiter was granted, or was designated for, while its thread has not come for
//       it (AsyncWaits::revoke). The waiter then waits again, in its old place, and is not granted twice.
//
// And for the stripes of a table with permits (limit() > 1), which are held in the counted mode only:
//   P1  At most limit() hold a stripe: its word counts them (I1), and a hold is added only by a compare-and-swap from
//       a lower count (withHold, and the fast path in JavaScript).
//   P2  kQueued is set only while all permits are taken. While an eligible waiter is in the queue, none is free but one for
//       a designated waiter. Only a blocked thread is designated, as it wakes soon; other permits are handed over.
//   P3  A death is told to each holder that comes until one holder releases after the first of them was told (kTold).
//       A roll-back or a further death begins that anew: the next that comes is told, and then a release ends it. A
//       word has no room to say how many were told, so a roll-back takes kTold also where another holder was told. That
//       tells of a death longer than needed, but never less: who is rolled back may be the only one that was told.
// A thread that dies has its permits in the word and in its shares; the two change with nothing in between at which it
// could end (lib/engine/fast-path.ts), or under C++ calls, which are never cut off. Membership::abandon() takes its shares
// out of the word in one exchange, which also hands them over. So no permit is lost (P1 would then keep others out
// for good), and none is given back twice.
//
// Barging and fairness. A release with waiters either hands the stripe over, or frees it and designates the first
// waiter. The thread of that waiter is woken and then competes with any other thread that comes by: running threads
// beat one that must be woken, which gives the throughput. Barging is bounded: kFairness after the queue formed, or
// after its head was last served, the next release with nobody designated hands over to the head. So the head waits
// for kFairness, for the designated thread to wake and try, and for one hold. An event loop that does not come for its
// turn loses it to the waiters behind (revocation.h). While async acquisitions keep it busy, the layer above calls
// AsyncWaits::take from time to time. The same holds for the last free permit of a stripe; if there are several at once,
// they are handed over. After "eventual fairness" in parking_lot (Amanieu d'Antras) and WebKit's
// WTF::Lock (Filip Pizlo), but timed per queue.
//
// Lock order: the shard of a key (key_table.h; inspection only), WaitGraph, then the revoke mutex of one participant, then
// shards by rising index, then the leaf locks (Table::membersMutex, that of Notes, Participant::readyMutex_,
// Participant::wakeMutex_).

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/key_table.h"
#include "core/layout.h"
#include "core/lock_word.h"
#include "core/mode.h"
#include "core/notes.h"
#include "core/waiter.h"
#include "core/wake_set.h"

namespace stripelock {

inline constexpr Nanoseconds kFairness = 1'000'000;

// How a stripe is left.
struct Leave {
  enum class How : std::uint8_t {
    kRelease,   // by a holder that is done
    kRollBack,  // by an acquisition that failed or is put off; the next holder is told what this one was told
    kDie,       // on behalf of a holder whose thread ended
  };
  How how;
  Mode mode = Mode::kExclusive;
  // Who leaves, where the word names its holder.
  std::uint32_t slot = 0;
  // How many holds, where the word counts them.
  std::uint32_t count = 1;
};

class Table {
 public:
  // `exact`: each key in use has a stripe of its own (key_table.h). `limit`: how many may hold a stripe at once; 1 for
  // a table without permits.
  Table(void* memory, std::uint32_t stripes, bool exact = false, std::uint32_t limit = 1,
        std::string name = {});
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  std::uint32_t stripes() const { return stripes_; }
  std::uint32_t limit() const { return limit_; }
  void* memory() const { return memory_; }
  // That of the first lock that has opened it.
  const std::string& name() const { return name_; }
  // Differs between all tables of the process, whenever they were open.
  std::uint64_t id() const { return id_; }
  // Which observers are on (layout.h).
  Word& observed() { return words_[kObservedInt]; }
  Word& word(std::uint32_t stripe) { return words_[kHeaderInts + (std::size_t{stripe} << kStripeShift)]; }
  Cell& cell(std::uint32_t index) { return cells_[index]; }
  // How many waiters came to the stripe's queue. Changed under the shard; JavaScript reads it at any time.
  Word& arrivals(std::uint32_t stripe) { return *(&word(stripe) + kArrivalsInt); }
  // nullptr unless the table is exact.
  KeyTable* keys() const { return keys_.get(); }
  // No stripe from here on was ever in use.
  std::uint32_t used() const { return keys_ ? keys_->used() : stripes_; }

  // One attempt for one stripe, without a lock. On success sets `abandoned` if an earlier holder's thread ended without
  // releasing; never clears it.
  bool tryTake(std::uint32_t stripe, std::uint32_t slot, Mode mode, bool& abandoned);

  // Whether some eligible waiter is in the stripe's queue. Takes no lock, so a waiter may just have come or gone.
  bool isAwaited(std::uint32_t stripe) {
    return (word(stripe).load() & kQueued) != 0 || queueOf(stripe).designated.load() != nullptr;
  }

  // Takes the waiter's stripes from `from` on, or links it at the first that is unavailable. `held`: the shard
  // that the caller has locked and whose queue the waiter was taken from, or nullptr if the caller is the
  // waiter's own thread and it is not linked. True: all are taken. With `wakes`, its owner is then told.
  bool proceed(Waiter& waiter, std::uint32_t from, Mutex* held, WakeSet* wakes);

  // Leaves a stripe and grants it to the next as the queue requires. False: according to the word, the stripe was not
  // held in that way.
  bool leave(std::uint32_t stripe, const Leave& leave, Participant* actor, WakeSet& wakes);
  // Grants the stripe as the queue now requires, and sets or clears kQueued; the holders stay. Call it with the
  // stripe's shard locked, after its queue changed or one of its waiters became eligible.
  void regrant(std::uint32_t stripe, Participant* actor, WakeSet& wakes);

  // Gives back stripes[0 … count) of an acquisition that failed or is put off, last first.
  void rollBack(const std::uint32_t* stripes, std::uint32_t count, Participant& owner, Mode mode);

  // Locks the shard under which the waiter is linked, or was linked when it was granted or withdrawn.
  Lock lockFor(const Waiter& waiter);
  // Unlinks a waiter for good and lets those behind it pass. False if it was already granted. The waiter still holds
  // what it took: the caller rolls that back.
  bool withdraw(Waiter& waiter);
  // A designated waiter found its stripe held. It either takes the stripe now after all (true), or waits again at its
  // place.
  bool retryDesignated(Waiter& waiter);
  // A sync waiter has slept long, or any waiter is about to time out: takes its stripe if the stripe is
  // free but an async waiter is designated that has not come for it yet. True: taken, and no longer linked.
  bool overtakeDesignated(Waiter& waiter);
  // A designated waiter has taken its stripe.
  void serveDesignated(Waiter& waiter);
  // Links an unlinked waiter that holds nothing into the queue of its first stripe, by its time of arrival. Call it on
  // the waiter's own thread, or with its owner's revoke mutex.
  void requeue(Waiter& waiter);

  // Nanoseconds until the head of the stripe's queue is the next to be granted; negative if it is.
  Nanoseconds fairIn(std::uint32_t stripe);

  Mutex& shardOf(std::uint32_t stripe) { return shards_[stripe >> shardShift_].mutex; }
  StripeQueue& queueOf(std::uint32_t stripe) { return queues_[stripe]; }

  Notes notes;

  // The threads that use this table. Under this mutex, Membership::sharesOf may be called on every member listed.
  Mutex membersMutex;
  std::vector<Membership*> members;

 private:
  struct alignas(64) Shard {
    Mutex mutex;
  };
  struct Freed {
    void operator()(StripeQueue* queues) const;
  };
  // The result of leaving a stripe, or of a change of its queue: the next word, and who gets the stripe.
  struct Plan {
    std::uint32_t next;
    Waiter* designate = nullptr;
    // Waiters that enter together form a chain through nextReady.
    Waiter* grant = nullptr;
    Nanoseconds fairAt = 0;
  };

  bool takeOrLink(Waiter& waiter, std::uint32_t stripe);
  // The word after the waiter has taken the stripe. Nothing if it must wait.
  std::optional<std::uint32_t> wordIfTaken(const Waiter& waiter, std::uint32_t word,
                                           const StripeQueue& queue) const;
  // Implements leave() and, with nullptr, regrant().
  bool changeAndGrant(std::uint32_t stripe, const Leave* leave, Participant* actor, WakeSet& wakes);
  Plan plan(StripeQueue& queue, std::uint32_t left, const Participant* actor) const;
  // Who may enter, and the word then. planForOne() also decides whether that one is handed the stripe or designated.
  Plan planBesideDesignated(StripeQueue& queue, std::uint32_t left) const;
  Plan planForSeveral(Waiter* waiter, std::uint32_t left, std::uint32_t kept) const;
  Plan planForOne(StripeQueue& queue, Waiter& first, std::uint32_t left, const Participant* actor) const;
  Waiter* nearest(Waiter& first, std::uint32_t left, const Participant* actor) const;
  // A release has called the waiter, or let it in.
  void drawFor(Waiter& waiter, WakeSet& wakes);
  void carryOut(std::uint32_t stripe, const Plan& plan, WakeSet& wakes);
  void complete(Waiter& waiter, WakeSet& wakes);
  void unlinkServed(Waiter& waiter, std::uint32_t stripe, WakeSet& wakes);

  void* const memory_;
  Word* const words_;
  Cell* const cells_;
  const std::uint32_t stripes_;
  const std::uint32_t limit_;
  const std::string name_;
  const std::uint64_t id_;
  std::uint32_t shardShift_ = 0;
  std::unique_ptr<Shard[]> shards_;
  std::unique_ptr<StripeQueue[], Freed> queues_;
  std::unique_ptr<KeyTable> keys_;
};

// Whether the waiter is not eligible now: see I3. If so, this marks its thread, which looks after it later
// (Participant::passOver).
bool passOver(const Waiter& waiter);
// The first eligible waiter from there on, or nullptr. Marks the threads of those before it.
Waiter* passOverIneligible(Waiter* from);

}  // namespace stripelock
