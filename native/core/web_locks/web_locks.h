// Locks on exact names, for the Web Locks API: they are granted strictly in order, and can be stolen from their
// holders. All threads of the process share them.
//
// A manager is only a number that is part of each key (web_lock_name.h). Managers are not opened, closed, or freed, and
// they share the shards.
//
// A name has a record while it is held or waited for. Each record has two lists:
//
//   held      one exclusive request, or shared ones
//   pending   the rest, in order of arrival
//
// W1  The held list has one exclusive request or only shared ones.
// W2  With the shard unlocked, the first pending request is incompatible with the held ones. So no request waits if it
//     could be granted. Except for a steal, no request overtakes the first pending one, because a new request joins the
//     holders only if none is pending.
// W3  A request is in one list of one record, or in none once it is stolen or ended.
// W4  A request belongs to its client's thread (web_lock_client.h). Other threads access it only in a record, with the
//     shard locked, or, as a neighbour in the client's ready list, to update its links, with that list locked. After a
//     request has left its record and has been pushed onto the ready list, its thread may free it at any time. So no
//     other thread accesses it again, except to update these links.
// W5  While a request is in a record or in the ready list, its state changes only with both the shard and that list
//     locked. So its thread may read the state with either one locked.
// W6  A query returns the state of all shards at one moment. At that moment, the query has all shards locked. It
//     requests a copy of each shard (WebLockShard::asked), and then unlocks all shards. A thread that locks a shard to
//     change the shard makes the requested copy first; the query makes the remaining copies. So another thread waits at
//     most until one shard is copied.
//
// Between the first and the last change of a record, no step allocates memory, except for the set of participants to
// wake.
//
// Order of locks: the mutex of queries, shards by ascending address, then a client's ready list.

#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/base/key_map.h"
#include "core/base/linked_list.h"
#include "core/base/short_mutex.h"
#include "core/base/sync.h"
#include "core/table/mode.h"
#include "core/web_locks/web_lock_name.h"

namespace stripelock {

class WebLockClient;
class WakeSet;
struct WebLockCopy;
struct WebLockRecord;
struct WebLockShard;

enum class WebLockHow : std::uint8_t {
  kWait,
  // Do not wait.
  kIfAvailable,
  // Take the lock from its holders, ahead of all waiters. Only in a mode that admits no other holders.
  kSteal,
};

enum class WebLockAnswer : std::uint8_t { kHeld, kPending, kUnavailable };

struct WebLockRequest {
  enum class State : std::uint8_t { kPending, kHeld, kStolen };

  WebLockRequest(WebLockClient& owner, Mode asked) : client(owner), mode(asked) {}

  WebLockClient& client;
  // The shard of the request's current or last record.
  WebLockShard* shard = nullptr;
  // nullptr if the request is in no list.
  WebLockRecord* record = nullptr;
  Links<WebLockRequest> inRecord;
  Links<WebLockRequest> inReady;
  // The client's number for this request.
  std::uint32_t ticket = 0;
  const Mode mode;
  State state = State::kPending;
  // Whether the request is in the ready list. Guarded by the mutex of that list.
  bool ready = false;
  // Used only by the client's thread. For a request that had to wait: true until the thread has collected the grant.
  bool untold = false;
};

struct WebLockRecord : KeyNode<WebLockRecord> {
  using KeyNode::KeyNode;
  using List = LinkedList<WebLockRequest, &WebLockRequest::inRecord>;

  // Whether a request in this mode can join the current holders.
  bool isCompatible(Mode mode) const { return held.empty() || goTogether(held.first()->mode, mode); }
  List& listOf(const WebLockRequest& request) {
    return request.state == WebLockRequest::State::kPending ? pending : held;
  }

  List held;
  List pending;
};

struct alignas(64) WebLockShard {
  ShortMutex mutex;
  KeyMap<WebLockRecord> records;
  // A dropped record that the next new name reuses, because an uncontended lock creates and drops a record each time.
  std::unique_ptr<WebLockRecord> spare;
  // The copy that a query has requested, or nullptr. The copy must be filled before the shard changes.
  WebLockCopy* asked = nullptr;
};

class WebLocks {
 public:
  static WebLocks& instance();

  // The manager of requests that do not specify one.
  static constexpr std::uint64_t kDefaultManager = 0;
  // Returns a number for a new manager.
  std::uint64_t issueManager() { return nextManager_.fetch_add(1); }
  bool isManager(std::uint64_t manager) const { return manager < nextManager_.load(); }

  // ── on the request's thread. None of them wakes that thread: see WebLockClient::hasReady ──

  // The request must be new. If the lock is unavailable, the request is in no list afterwards.
  WebLockAnswer request(WebLockRequest& request, const KeyView& key, WebLockHow how);
  // Ends a pending request. Returns false, and does nothing, if it is not pending.
  bool cancel(WebLockRequest& request);
  // Ends a request in any state. Returns false if it was stolen.
  bool end(WebLockRequest& request);
  // Waits until every thread that pushed a request before this call has finished using the request's client.
  void awaitPushers();

  // ── from any thread ──

  struct Info {
    Mode mode;
    bool held;
    std::int32_t threadId;
  };
  struct NameInfo {
    std::u16string name;
    // The holders first, then the queue.
    std::vector<Info> requests;
  };
  // All names of a manager at one moment.
  std::vector<NameInfo> query(std::uint64_t manager);
  // The number of names that are held or waited for, of all managers.
  std::size_t size();

 private:
  static constexpr std::uint32_t kShards = 64;

  WebLocks() = default;
  // Locks a shard for a change (preserves W6).
  static ShortLock lockToChange(WebLockShard& shard);
  // Call these with the shard locked.
  static void copyIfAsked(WebLockShard& shard);
  static WebLockRecord& add(WebLockShard& shard, const KeyView& key);
  static void rob(WebLockRecord& record, WakeSet& wakes);
  static void remove(WebLockRequest& request, WakeSet& wakes);

  std::array<WebLockShard, kShards> shards_;
  // Allows one query at a time.
  Mutex queries_;
  std::atomic<std::uint64_t> nextManager_{kDefaultManager + 1};
};

}  // namespace stripelock
