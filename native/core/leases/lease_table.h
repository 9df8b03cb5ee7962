// Leases on exact keys, for all threads of the process.
//
// A key is
//
//   free                 no entry, or an entry that has expired
//   held by an owner     an entry that has not expired
//   held by a group      an entry that has not expired, and that has readers
//   kept after the end   an entry that has not expired, and that is marked `kept`
//   of a grant
//   free, but not for    an entry that has not expired, and that is marked `vacant`
//   readers
//
// tryAcquire() makes a free key held, and end() or expiry frees the key again. Waiting threads watch the key, and a
// release notifies all of them. The thread that has waited longest then has the turn: for kTurn after the release, only
// this thread can take the key. If the key is then vacant, no thread has the turn.
//
// keep() ends a grant, but the key stays held for some time. The entry then has another owner, so that no request of the
// grant's owner changes it, however late the request arrives.
//
// The first join() of a free key forms a group, and names it after the reader and the token. Further readers join the
// group, and leave it one by one. The last reader to leave frees the key. If readers are put off at that time, the entry
// becomes vacant, and stays so until readers are admitted again. For all other operations, the group is the owner of the
// key, under its name.
//
// L1  Tokens are assigned with the table locked, from one counter. The token of each grant is greater than the tokens
//     of all earlier grants in the table, including leases that have ended.
// L2  An entry is in the map and in the heap of times, or in neither. Its rank in the heap is the time when it expires.
// L3  No expired key stays forever: each operation removes up to kSwept expired entries. An operation adds at most one
//     entry, so expired entries are removed at least as fast as new entries are added. Each operation is O(log n).
// L4  If a key has no entry, and its last lease ended without a release, the key is in lapsed_ until the key's next
//     grant. lapsed_ has at most kRemembered keys. If it is full, the key whose lease ended first is removed.
//
// L5  A held entry with a group has at least one reader, and the token and the value of `abandoned` with which the group
//     was formed. It expires no earlier than the latest expiry for which any of its readers was granted.
// L6  While a group's readers are put off, join() adds no reader to it. A vacant entry expires at the time until which
//     readers are put off. Until then, join() does not form a group, and tryAcquire() takes the key as if it had no
//     entry. If a group ends by expiry or takeBack(), new readers are admitted again.
// L7  The end of a group or of a vacant entry puts the key into lapsed_ only if `abandoned` was true when the group was
//     formed.
//
// The caller passes the time, so that tests can advance the time. If the caller passes kElapsed, the table reads
// elapsed() while the table is locked. That clock also counts while the machine is suspended, as the clock of the
// holders' deadlines does.
//
// One mutex is enough for the whole table: a lease costs some microseconds of JavaScript, but less than one microsecond
// under the mutex.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/indexed_heap.h"
#include "core/base/key_map.h"
#include "core/base/sync.h"
#include "core/leases/lease_watches.h"

namespace stripelock {

class WakeSet;

class LeaseTable {
 public:
  // A caller passes this value instead of a time to make the table read elapsed() itself.
  static constexpr Nanoseconds kElapsed = std::numeric_limits<Nanoseconds>::min();
  // The time after a release during which only the thread that has waited longest may take the key. If that thread's
  // event loop is not blocked, it reacts within this time. If it is blocked, the other threads lose only this little
  // time.
  static constexpr Nanoseconds kTurn = 5'000'000;
  // The number of abandoned keys that the table remembers.
  static constexpr std::size_t kRemembered = 1024;

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
    // If not granted: the nanoseconds after which to retry even without a wake. By then the holder's lease has
    // expired, or the other thread's turn has ended.
    Nanoseconds retryAfter = 0;
    // If granted: whether the key's last lease ended without a release. If the owner already held the key, the value is
    // that of the owner's last grant.
    bool abandoned = false;
  };
  // Grants nothing if another owner holds the key, or if another thread has the turn. If the same owner already holds
  // the key, that owner gets a new token, and its lease does not become shorter. `info`: the text to keep with the
  // lease; may be empty. `taker`: the watches of the calling thread.
  Grant tryAcquire(const Claim& claim, Nanoseconds ttl, std::string_view info, const LeaseWatches& taker);

  struct SharedGrant : Grant {
    // If granted: the name of the group, which is the key's owner.
    std::string group;
  };
  // Grants the key in shared mode. `claim.owner`: the reader's name. A group that is formed is named `reader:token`, so
  // that no two groups have the same name. The added part is UTF-16, as owners from JavaScript are. Grants nothing if an
  // owner holds the key, if another thread has the turn, or if readers are put off. A reader of the group can call this
  // again at any time.
  SharedGrant join(const Claim& claim, Nanoseconds ttl, const LeaseWatches& taker);
  // kNotIn: the reader is not in the group. kOthersRemain: other readers still hold the key.
  enum class Leave : std::uint8_t { kNotIn, kOthersRemain, kFreed };
  // Removes the reader `claim.owner` from the group that holds the key. The last reader to leave frees the key, and
  // notifies like end(). `self`: as for end().
  Leave leave(const Claim& claim, const LeaseWatches* self);
  // If a group holds the key, refuses new readers until `time` from now, or longer if they are already put off for
  // longer. This outlasts the last leave(), but no grant of tryAcquire(). Returns false if no group holds the key.
  bool putOffReaders(const KeyView& key, Nanoseconds time, Nanoseconds at);

  // Extends the owner's lease to `ttl` from now, and never shortens it. Returns false if the owner does not hold the
  // key. `info`: nullptr keeps the lease's text; an empty text removes it. Ignored for a group.
  bool renew(const Claim& claim, Nanoseconds ttl, const std::string_view* info = nullptr);
  // Ends the owner's grant, which frees the key, and notifies the threads that watch the key. Returns false if the owner
  // does not hold the grant. `token`: the token that the grant must have; 0 matches any grant. `self`: the watches of
  // the calling thread, or nullptr. That thread is not woken, because it checks its watches itself.
  bool end(const Claim& claim, std::uint64_t token, const LeaseWatches* self);
  // Ends the owner's grant that has this token, but the key stays held until `time` from now. Until then, its owner is
  // `keptOwner`, and its token stays the same. Notifies like end(). Returns true if the owner held the grant. Also
  // returns true if an earlier call has ended the grant in this way and the key is still kept; this call then changes
  // nothing.
  bool keep(const Claim& claim, std::uint64_t token, std::string_view keptOwner, Nanoseconds time,
            const LeaseWatches* self);
  // Frees the key of a grant that its holder did not release, and notifies like end(). The key's next grant is marked
  // as abandoned if this grant was used, or was itself marked so. Returns false if the owner does not hold the grant.
  bool takeBack(const Claim& claim, std::uint64_t token, bool wasUsed, const LeaseWatches* self);

  struct Info {
    std::string owner;
    std::uint64_t token;
    Nanoseconds remaining;
    // Empty if the lease has no text.
    std::string info;
  };
  std::optional<Info> inspect(const KeyView& key, Nanoseconds at);

  struct Listed {
    std::string key;
    Info info;
  };
  // Whether the first key comes before the second. Both are given as bytes.
  using KeyOrder = bool (*)(std::string_view, std::string_view);
  // The first `most` held leases whose keys start with `prefix`, in the order of `isBefore`. Visits every entry with
  // the table locked, but copies only the returned leases.
  std::vector<Listed> list(std::string_view prefix, std::size_t most, KeyOrder isBefore, Nanoseconds at);

  // The number of entries, including expired ones that are not swept yet.
  std::size_t size();
  // All tokens that the table has assigned are less than this.
  std::uint64_t nextToken();
  // Removes all expired entries, however many there are. Returns true if the table is then empty.
  bool sweepAll(Nanoseconds at);

  // Only for LeaseWatches.
  void link(LeaseWatch& watch);
  void unlink(LeaseWatch& watch);

 private:
  static constexpr unsigned kSwept = 2;

  struct Group {
    // The names of the readers.
    std::set<std::string, std::less<>> readers;
    // New readers are refused until this time.
    Nanoseconds putOffUntil = std::numeric_limits<Nanoseconds>::min();
  };
  struct Entry : KeyNode<Entry> {
    using KeyNode::KeyNode;
    std::string owner;
    // Empty if the lease has no text.
    std::string info;
    std::uint64_t token = 0;
    std::uint32_t place = 0;
    // See Grant::abandoned.
    bool abandoned = false;
    // Whether keep() has ended the grant. `owner` is then the name from keep().
    bool kept = false;
    // Whether the key is free, and the entry only puts off readers.
    bool vacant = false;
    // Null if an owner holds the key.
    std::unique_ptr<Group> group;

    // Whether the key becomes abandoned when this entry ends without a release.
    bool endsAbandoned(bool wasUsed = true) const {
      return group || vacant || kept ? abandoned : wasUsed || abandoned;
    }
  };
  struct Lapsed : KeyNode<Lapsed> {
    using KeyNode::KeyNode;
    std::uint32_t place = 0;
  };
  // The threads that wait for a key, ordered by when they arrived or last had their turn.
  struct Waiting : KeyNode<Waiting> {
    using KeyNode::KeyNode;
    std::vector<LeaseWatch*> watches;
    // The end of the first thread's turn. Until then, only this thread may take the key. 0 if no release was reported
    // since the last turn. This time is always on the steady clock, even if the leases use another clock, because it
    // measures how fast threads react.
    Nanoseconds turnEnds = 0;
  };
  // The functions below are called with the table locked.

  Info infoOf(const Entry& entry, Nanoseconds at) const;
  // The entry if its key is held; else null. `entry` may be null.
  Entry* ifHeld(Entry* entry, Nanoseconds at) const;
  // The key's entry if it is held, by any owner; else null.
  Entry* held(const KeyView& key, Nanoseconds at);
  // The key's entry if this owner holds it with a grant that has the token; else null. Token 0 matches any grant.
  Entry* heldBy(const Claim& claim, std::uint64_t token, Nanoseconds at);
  // Grants a key that is free or that the same owner holds. In the last case, the lease lasts at least as long as
  // before. `entry`: the key's entry, which may not be held; null if there is none.
  Entry& grant(const Claim& claim, Nanoseconds until, Entry* entry, Nanoseconds at);
  // Removes the grant's entry, and notifies the threads that watch the key. `isAbandoned`: returns whether the key
  // becomes abandoned. The other arguments and the result are those of end().
  template <typename IsAbandoned>
  bool endBy(const Claim& claim, std::uint64_t token, const LeaseWatches* self, IsAbandoned isAbandoned);
  // If `taker` may take the free key, ends the turn and returns 0. Otherwise returns the time after which to retry.
  Nanoseconds passTurn(const KeyView& key, const LeaseWatches& taker);
  // Notifies the threads that watch the key. `wakes`: sent after the table is unlocked. `turn`: true if the key is free
  // now. Then the turn of the first thread begins.
  void callWatches(const KeyView& key, bool turn, WakeSet& wakes);
  // Removes the entry of a lease that ended at the time `ended`.
  void vacate(Entry& entry, Nanoseconds ended, bool abandoned);
  void erase(Entry& entry);
  // Removes the entry of a lease that ended at the time `ended` without a release, and adds its key to lapsed_.
  void lapse(Entry& entry, Nanoseconds ended);
  // Removes the key from lapsed_. Returns whether the key was there.
  bool takeLapsed(const KeyView& key);
  void forget(Lapsed& key);
  // Removes up to `most` expired entries.
  void sweep(Nanoseconds at, std::size_t most = kSwept);

  Mutex mutex_;
  KeyMap<Entry> entries_;
  IndexedHeap<Nanoseconds, Entry> times_;
  KeyMap<Lapsed> lapsed_;
  // The keys of lapsed_, ranked by when their leases ended.
  IndexedHeap<Nanoseconds, Lapsed> lapses_;
  KeyMap<Waiting> waiting_;
  std::uint64_t nextToken_;
};

}  // namespace stripelock
