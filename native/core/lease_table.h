// Leases on exact keys, for all threads of the process.
//
// A key is
//
//   free                 no entry, or an entry whose time has passed
//   held by an owner     an entry whose time is still to come
//
// tryAcquire or takeTurn makes a free key held; release, or time alone, makes it free.
//
// L1  Tokens are assigned under the shard of their key, from one counter: the token of each grant is greater than
//     that of every earlier grant in the table, even if that lease is gone.
// L2  An entry is in its shard's table and in its shard's heap, or in neither.
// L3  The heap's rank of an entry is not later than its time. Renewing leaves the rank as it is, since a lease is
//     renewed far more often than it expires. The sweep that finds the rank due moves it up to the time.
// L4  No expired key stays forever: an operation sweeps expired entries of its own shard, and one in kSweepEvery of
//     those that acquire or renew sweeps another shard in turn. Each sweep is bounded, so each operation is O(log n),
//     and expired entries are swept as fast as new ones can be made.
// L5  A lease that is kept (keep()) does not expire while its keeper's thread lives: whoever finds its time over extends
//     it, by one ttl at most and never beyond its limit. The time is only written under the shard, and only after
//     endedAt() was read there. If the thread ends between any two of these steps, the lease is extended once more at
//     most, to one ttl after a time at which the thread lived; the next look finds it ended. A thread that ends between
//     the grant and keep() leaves a usual lease. A thread that never ends leaves the lease to its limit.
//
// The caller passes the time, so that tests can advance it, or kSteady: the steady clock is then read under the
// shard's lock.

#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/indexed_heap.h"
#include "core/key_map.h"
#include "core/lease_keeper.h"
#include "core/lease_watches.h"
#include "core/sync.h"

namespace stripelock {

class WakeSet;

class LeaseTable {
 public:
  // Instead of a time: read the steady clock.
  static constexpr Nanoseconds kSteady = std::numeric_limits<Nanoseconds>::min();
  // How long after a release the thread that has waited longest may go before the other waiting threads.
  // Long enough for an event loop that is not blocked, short enough not to matter for one that is.
  static constexpr Nanoseconds kTurn = 5'000'000;

  explicit LeaseTable(std::uint64_t firstToken) : firstToken_(firstToken), nextToken_(firstToken) {}

  // Who asks for which key, and when.
  struct Claim {
    KeyView key;
    // Empty: the holder has no name of its own. Its token then identifies it, and it is called anonymousOwner(token).
    std::string_view owner;
    // Not 0: the holder that was granted this token, regardless of the owner's name.
    std::uint64_t token = 0;
    Nanoseconds at = kSteady;
  };
  // "lease 1763697600000000000", in UTF-16 code units like the host's strings.
  static std::string anonymousOwner(std::uint64_t token);

  struct Grant {
    // 0: not granted.
    std::uint64_t token = 0;
    // When it was granted, on the clock of Claim::at. It expires ttl later.
    Nanoseconds since = 0;
    // Tells releaseHinted() where to look.
    std::uint32_t hint = 0;
    // If not granted: after how long to try again even without a wake-up. By then the holder's lease has expired, or
    // the other thread's turn is over.
    Nanoseconds retryAfter = 0;
  };
  // Not granted if another owner holds the key. The same owner gets a new token.
  Grant tryAcquire(const Claim& claim, Nanoseconds ttl) { return acquire(claim, ttl, nullptr); }
  // The same for a thread that waits, or would wait: the thread that has waited longest goes first.
  Grant takeTurn(const Claim& claim, Nanoseconds ttl, const LeaseWatches& taker) {
    return acquire(claim, ttl, &taker);
  }

  // Extends what the owner holds, or shortens it, and then tells the threads that watch the key. False if it does not hold
  // it. `self`: as for release().
  bool renew(const Claim& claim, Nanoseconds ttl, const LeaseWatches* self = nullptr);
  // Keeps a text with what the owner holds, until it is released, expires, or is granted again. False if it does not hold
  // it.
  bool setInfo(const Claim& claim, std::string_view info);
  // From now on what the owner holds is extended by itself, a `ttl` at a time, while the keeper's thread lives, but not
  // beyond `most` after the grant. Afterwards it ends within `ttl`; on a clock of the caller's own, whose time nobody
  // can tell when the thread ends, at the latest time up to which it was extended. Call it right after the grant, with
  // the same ttl. A new grant ends it. False if the owner does not hold the lease.
  bool keep(const Claim& claim, Nanoseconds ttl, Nanoseconds most, std::shared_ptr<const LeaseKeeper> keeper);
  // The opposite: the lease ends when it expires. False if the owner does not hold it.
  bool letGo(const Claim& claim);
  // Frees what the owner holds, and tells the threads that watch the key. False if the owner did not hold it. `self`:
  // the caller's own watches; that thread is not woken, since it looks by itself. The steady clock is read with
  // recently(): a lease that expired since then, and that nobody has taken, counts as held.
  bool release(const Claim& claim, const LeaseWatches* self);
  // The same for the lease with that token and hint, without its key: reading and hashing the key costs as much as all
  // the rest. Returns nothing if the lease is no longer at that place; the caller then uses release() with the key.
  std::optional<bool> releaseHinted(std::uint32_t hint, std::uint64_t token, Nanoseconds at,
                                    const LeaseWatches* self);

  struct Info {
    std::string owner;
    std::uint64_t token;
    Nanoseconds remaining;
    // Empty for none.
    std::string info;
  };
  std::optional<Info> inspect(const KeyView& key, Nanoseconds at);

  // Entries, including expired ones that are not swept yet. Sums up the shards one after the other, not at one moment.
  std::size_t size() const;
  // No token of the table is less than this.
  std::uint64_t firstToken() const { return firstToken_; }
  // Every token of the table is less than this.
  std::uint64_t nextToken() const { return nextToken_.load(); }
  // Removes everything that has expired. Not bounded. True if nothing is left.
  bool sweepAll(Nanoseconds at);

  // For LeaseWatches.
  void link(LeaseWatch& watch);
  void unlink(LeaseWatch& watch);

 private:
  static constexpr std::uint32_t kShards = 128;
  // Two, since an operation can add only one: the backlog shrinks.
  static constexpr unsigned kSweepOwn = 2;
  static constexpr unsigned kSweepOther = 32;
  static constexpr std::uint32_t kSweepEvery = 16;
  // Bytes.
  static constexpr std::size_t kSpareOwner = 64;

  struct Keep {
    std::shared_ptr<const LeaseKeeper> keeper;
    Nanoseconds ttl = 0;
    // It is not extended beyond this.
    Nanoseconds limit = 0;
    // On the steady clock, like the keeper.
    bool steady = false;
  };
  struct Entry : KeyNode<Entry> {
    using KeyNode::KeyNode;
    std::string name() const { return owner.empty() ? anonymousOwner(token) : owner; }
    // Empty: anonymousOwner(token).
    std::string owner;
    std::uint64_t token = 0;
    Nanoseconds expiresAt = 0;
    std::uint32_t place = 0;
    // Null for none, as most entries have none.
    std::unique_ptr<std::string> info;
    // Null for a usual lease.
    std::unique_ptr<Keep> kept;
  };
  // The threads that wait for a key, in the order in which they came or last took their turn.
  struct Waiting : KeyNode<Waiting> {
    using KeyNode::KeyNode;
    std::vector<LeaseWatch*> watches;
    // Until then the first thread goes before the others. 0 if no release was reported since the last turn. Always on
    // the steady clock, even if the leases use another: this is about how quick threads are.
    Nanoseconds turnEnds = 0;
  };
  struct alignas(64) Shard {
    Mutex mutex;
    KeyMap<Entry> entries;
    IndexedHeap<Nanoseconds, Entry> times;
    KeyMap<Waiting> waiting;
    std::uint32_t operations = 0;
    // entries.size(), for size(). Written with the shard locked, so a store is enough; one counter for the whole table
    // would take two locked instructions per lease, 6 ns each.
    std::atomic<std::size_t> size{0};
    // The entry removed last, kept for its memory: taking and releasing one key over and over allocates nothing.
    std::unique_ptr<Entry> spare;
  };

  Shard& shardFor(const KeyView& key) { return shards_[shardOf<kShards>(key)]; }
  // Extends a kept lease whose time is over. Call it with the shard locked.
  static bool isHeld(Entry* entry, Nanoseconds at) {
    return entry && (entry->expiresAt > at || (entry->kept && extendKept(*entry, at)));
  }
  // Whether it is held now.
  static bool extendKept(Entry& entry, Nanoseconds at);
  static bool isOwn(const Entry& entry, const Claim& claim);
  static bool isHeldBy(Entry* entry, const Claim& claim, Nanoseconds at) {
    return isHeld(entry, at) && isOwn(*entry, claim);
  }
  // `taker`: the thread that respects turns, or nullptr.
  Grant acquire(const Claim& claim, Nanoseconds ttl, const LeaseWatches* taker);
  // `entry`: the key's, expired or not, or nullptr.
  Grant grant(Shard& shard, Entry* entry, const Claim& claim, Nanoseconds at, Nanoseconds ttl);
  // Asked by a thread that could take a free key: 0 if it may, which ends the turn, else after how long to try again.
  static Nanoseconds passTurn(Shard& shard, const KeyView& key, const LeaseWatches& taker);
  // Tells the threads that watch the key to look again. `wakes`: to be sent after the shard is unlocked.
  static void callWatches(Waiting& queue, WakeSet& wakes);
  // The last step of every release. `wakes`: to be sent after the shard is unlocked.
  bool freeEntry(Shard& shard, Entry& entry, Nanoseconds at, WakeSet& wakes);
  Entry& add(Shard& shard, const KeyView& key, Nanoseconds expiresAt);
  static void extend(Shard& shard, Entry& entry, Nanoseconds expiresAt);
  void erase(Shard& shard, Entry& entry);
  // Removes up to `most` expired entries.
  void sweep(Shard& shard, Nanoseconds at, unsigned most);
  // Call it with no shard locked.
  void sweepOther(Nanoseconds at);
  // Counts an operation that adds or extends, sweeps, and says whether sweepOther is due. Call it with the shard
  // locked.
  bool tend(Shard& shard, Nanoseconds at);

  std::array<Shard, kShards> shards_;
  const std::uint64_t firstToken_;
  std::atomic<std::uint64_t> nextToken_;
  std::atomic<std::uint32_t> sweepNext_{0};
};

}  // namespace stripelock
