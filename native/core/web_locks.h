// Locks on exact names, for the Web Locks API: they are granted strictly in order, and can be stolen from their
// holders. All threads of the process share them.
//
// A manager is only a number that is part of each key (web_lock_name.h). There is nothing to open, to close, or to
// free. Managers share the shards.
//
// A name has a record while it is held or waited for. Each record has two lists:
//
//   held      one exclusive request, or shared ones
//   pending   the rest, in order of arrival
//
// W1  The held list has one exclusive request or only shared ones.
// W2  With the shard unlocked, the first pending request is incompatible with the held ones. So no request waits that could
//     be granted, and none overtakes it: a new request joins the holders only if none is pending.
// W3  A request is in one list of one record, or in none once it is stolen or ended.
// W4  A request belongs to its client's thread (web_lock_client.h). Other threads reach it only through a record, with the
//     shard locked, or as the neighbour of another in the client's ready list, with that list locked. Once it is out of its
//     record and pushed, its thread may free it at any moment, so no other thread accesses it again.
// W5  The state of a request that is in a record, or in the ready list, changes only with both its shard and that list
//     locked. So its thread reads it under either.
// W6  A query shows all shards at one moment, and has more than one of them locked only in that moment: it leaves each
//     shard a request for a copy (WebLockShard::asked). A thread that locks a shard to change it makes that copy first; the
//     query makes the rest. So other threads wait for the copy of one shard at most.
//
// No step allocates between the first change of a record and its last, except for the set of participants to wake.
//
// Order of locks: the mutex of queries, shards by ascending address, then a client's ready list.

#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/key_map.h"
#include "core/linked_list.h"
#include "core/mode.h"
#include "core/short_mutex.h"
#include "core/sync.h"
#include "core/web_lock_name.h"

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
  // Take it from its holders, ahead of all waiters. Only in a mode that admits no others.
  kSteal,
};

enum class WebLockAnswer : std::uint8_t { kHeld, kPending, kUnavailable };

struct WebLockRequest {
  enum class State : std::uint8_t { kPending, kHeld, kStolen };

  WebLockRequest(WebLockClient& owner, Mode asked) : client(owner), mode(asked) {}

  WebLockClient& client;
  // The shard of its current or last record.
  WebLockShard* shard = nullptr;
  // nullptr: in no list.
  WebLockRecord* record = nullptr;
  Links<WebLockRequest> inRecord;
  Links<WebLockRequest> inReady;
  // The client's number for this request.
  std::uint32_t ticket = 0;
  const Mode mode;
  State state = State::kPending;
  // It is in the ready list. Guarded by the mutex of that list.
  bool ready = false;
  // Used only by the client's thread: true until the thread collects the grant.
  bool untold = false;
};

struct WebLockRecord : KeyNode<WebLockRecord> {
  using KeyNode::KeyNode;
  using List = LinkedList<WebLockRequest, &WebLockRequest::inRecord>;

  // Whether it can be held together with the current holders.
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
  // Reused for the next new name: an uncontended lock creates and drops a record each time.
  std::unique_ptr<WebLockRecord> spare;
  // The copy that a query asked for; it must be filled before the shard changes. nullptr: none.
  WebLockCopy* asked = nullptr;
};

class WebLocks {
 public:
  static WebLocks& instance();

  // The manager of requests that name no other.
  static constexpr std::uint64_t kDefaultManager = 0;
  // A number for another manager.
  std::uint64_t issueManager() { return nextManager_.fetch_add(1); }
  bool isManager(std::uint64_t manager) const { return manager < nextManager_.load(); }

  // ── on the request's thread. None of them wakes that thread: see WebLockClient::hasReady ──

  // The request must be new. If the lock is unavailable, the request is in no list afterwards.
  WebLockAnswer request(WebLockRequest& request, const KeyView& key, WebLockHow how);
  // Ends a pending request. Returns false, and does nothing, if it is not pending.
  bool cancel(WebLockRequest& request);
  // Ends a request in any state. Returns false if it was stolen.
  bool end(WebLockRequest& request);
  // When it returns, every thread that pushed a request before this call has finished using that client.
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
  // Locks a shard for a change (keeps W6).
  static ShortLock lockToChange(WebLockShard& shard);
  // The shard is locked for all of these.
  static void copyIfAsked(WebLockShard& shard);
  static WebLockRecord& add(WebLockShard& shard, const KeyView& key);
  static void rob(WebLockRecord& record, WakeSet& wakes);
  static void remove(WebLockRequest& request, WakeSet& wakes);

  std::array<WebLockShard, kShards> shards_;
  // One query at a time.
  Mutex queries_;
  std::atomic<std::uint64_t> nextManager_{kDefaultManager + 1};
};

}  // namespace stripelock
