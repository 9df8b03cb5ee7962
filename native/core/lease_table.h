// Leases on exact keys, for all threads of the process.
//
// A key is
//
//   free                 no entry, or an entry whose time has passed
//   held by an owner     an entry whose time is still to come
//
// tryAcquire makes a free key held; release, or time alone, makes it free. Threads that wait watch the key: a release
// notifies all of them, and for kTurn only the thread whose turn it is can take the key.
//
// L1  Tokens are assigned with the table locked, from one counter. The token of each grant is greater than the tokens of
//     all earlier grants in the table, even of leases that are gone.
// L2  An entry is in the map and in the heap of times, or in neither. Its rank in the heap is the time when it expires.
// L3  No expired key stays forever: each operation removes up to kSwept expired entries. It can add only one, so
//     expired entries are swept as fast as new ones can be made, and each operation is O(log n).
//
// The caller passes the time, so that tests can advance it, or kElapsed: the clock of elapsed() is then read with the
// table locked. It also counts while the machine is suspended, like the deadlines of the holders.
//
// One mutex serves the whole table: a lease costs its thread some microseconds of JavaScript, and the table a fraction of
// one.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/indexed_heap.h"
#include "core/key_map.h"
#include "core/lease_watches.h"
#include "core/sync.h"

namespace stripelock {

class WakeSet;

class LeaseTable {
 public:
  // Passed instead of a time: read the clock of elapsed().
  static constexpr Nanoseconds kElapsed = std::numeric_limits<Nanoseconds>::min();
  // For this time after a release, only the longest waiting thread may take the key. Long enough for an event loop that
  // is not blocked, short enough not to matter for one that is.
  static constexpr Nanoseconds kTurn = 5'000'000;

  explicit LeaseTable(std::uint64_t firstToken) : nextToken_(firstToken) {}

  // The key of a request, its owner, and the time.
  struct Claim {
    KeyView key;
    std::string_view owner;
    Nanoseconds at = kElapsed;
  };
  struct Grant {
    // 0: not granted.
    std::uint64_t token = 0;
    // If not granted: when to try again even without a wake-up. By then the holder's lease has expired, or the other
    // thread's turn has ended.
    Nanoseconds retryAfter = 0;
  };
  // Not granted if another owner holds the key, or if it is another thread's turn. The same owner gets a new token.
  // `info`: a text that is kept with the lease; empty for none. `taker`: the calling thread.
  Grant tryAcquire(const Claim& claim, Nanoseconds ttl, std::string_view info, const LeaseWatches& taker);

  // Extends the owner's lease to `ttl` from now, and never shortens it. Returns false if the owner does not hold the
  // key. `info`: null leaves the text as it is; an empty one removes it.
  bool renew(const Claim& claim, Nanoseconds ttl, const std::string_view* info = nullptr);
  // Ends the owner's grant that has this token, but leaves the key taken for `ttl` from now, and notifies the threads that
  // watch the key, whose wait may be shorter now. False if the owner does not hold that grant. `self`: as for release().
  bool keep(const Claim& claim, std::uint64_t token, Nanoseconds ttl, const LeaseWatches* self);
  // Frees the owner's lease, and notifies the threads that watch the key. Returns false if the owner did not hold it.
  // `token`: the required grant; 0 accepts any. `self`: the caller's own watches; that thread is not woken, because it
  // checks by itself.
  bool release(const Claim& claim, std::uint64_t token, const LeaseWatches* self);

  struct Info {
    std::string owner;
    std::uint64_t token;
    Nanoseconds remaining;
    // Empty for none.
    std::string info;
  };
  std::optional<Info> inspect(const KeyView& key, Nanoseconds at);

  // The number of entries, including expired ones that are not swept yet.
  std::size_t size();
  // Every token of the table is less than this.
  std::uint64_t nextToken();
  // Removes everything that has expired. Not bounded. True if nothing is left.
  bool sweepAll(Nanoseconds at);

  // For LeaseWatches.
  void link(LeaseWatch& watch);
  void unlink(LeaseWatch& watch);

 private:
  static constexpr unsigned kSwept = 2;

  struct Entry : KeyNode<Entry> {
    using KeyNode::KeyNode;
    std::string owner;
    // Empty for none.
    std::string info;
    std::uint64_t token = 0;
    std::uint32_t place = 0;
  };
  // The threads that wait for a key, in the order in which they came or last took their turn.
  struct Waiting : KeyNode<Waiting> {
    using KeyNode::KeyNode;
    std::vector<LeaseWatch*> watches;
    // Until this time, only the first thread may take the key. 0 if no release was reported since the last turn. Always
    // on the steady clock, even if the leases use another, because it measures the reaction of threads.
    Nanoseconds turnEnds = 0;
  };
  // The functions below are called with the table locked.

  // The key's entry if it is held, by any owner; else null.
  Entry* held(const KeyView& key, Nanoseconds at);
  // The same if the owner holds it, with a grant that has the token; 0 accepts any.
  Entry* heldBy(const Claim& claim, std::uint64_t token, Nanoseconds at);
  // Returns 0 if the thread may take a free key, and ends the turn. Otherwise returns the time after which to try
  // again.
  Nanoseconds passTurn(const KeyView& key, const LeaseWatches& taker);
  // Notifies the threads that watch the key. `wakes`: sent after the table is unlocked. `turn`: the key is free, so the
  // first thread's turn begins.
  void callWatches(const KeyView& key, bool turn, WakeSet& wakes);
  void erase(Entry& entry);
  // Removes up to `most` expired entries.
  void sweep(Nanoseconds at, std::size_t most = kSwept);

  Mutex mutex_;
  KeyMap<Entry> entries_;
  IndexedHeap<Nanoseconds, Entry> times_;
  KeyMap<Waiting> waiting_;
  std::uint64_t nextToken_;
};

}  // namespace stripelock
