// Locks on exact names, granted strictly in order, that can be taken from their holders: what the Web Locks API asks
// for. All threads of the process share them.
//
// A manager of locks is a number that is part of each key (web_lock_name.h), and nothing else: there is nothing to open, to
// close, or to free. Managers share the shards.
//
// A name has a record while somebody holds it or waits for it. Each record has two lists:
//
//   held      one exclusive request, or shared ones
//   pending   the rest, in order of arrival
//
// W1  What is held is one exclusive request or only shared ones.
// W2  With the shard unlocked, the first pending request is incompatible with what is held. So nothing that may be
//     granted is left to wait, and nothing passes it: an arrival joins the holders only if nobody is pending.
// W3  A request is in one list of one record, or in none once it is stolen or ended.
// W4  A request belongs to its client's thread (web_lock_client.h). Others reach it only through a record, with the shard
//     locked, or as the neighbour of another in the client's ready list, with that list locked. Once it is out of its
//     record and pushed, its thread may free it at any moment: nobody else looks at it again.
// W5  The state of a request that is in a record, or in the ready list, changes only with both its shard and that list
//     locked. So its thread reads it under either.
// W6  A query shows all shards as they were at one moment, and has more than one of them locked only in that moment: it
//     leaves each shard a request for a copy (WebLockShard::asked). Who then locks a shard to change it makes that copy
//     first; the query makes the rest. So other threads wait for the copy of one shard, never for that of all.
//
// No step allocates between the first change of a record and its last, but for the set of who is to be woken.
//
// Order of locks: that of the queries, shards by rising address, then a client's ready list.

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
  // Take it from its holders, and pass those that wait. Only in a mode that admits no others.
  kSteal,
};

enum class WebLockAnswer : std::uint8_t { kHeld, kPending, kUnavailable };

struct WebLockRequest {
  enum class State : std::uint8_t { kPending, kHeld, kStolen };

  WebLockRequest(WebLockClient& owner, Mode asked) : client(owner), mode(asked) {}

  WebLockClient& client;
  // Where its record is, or was.
  WebLockShard* shard = nullptr;
  // nullptr: in no list.
  WebLockRecord* record = nullptr;
  Links<WebLockRequest> inRecord;
  Links<WebLockRequest> inReady;
  // The client's number for it.
  std::uint32_t ticket = 0;
  const Mode mode;
  State state = State::kPending;
  // It is in the ready list. Guarded by the mutex of that list.
  bool ready = false;
  // The thread's alone: it waits to be told that it is granted.
  bool untold = false;
};

struct WebLockRecord : KeyNode<WebLockRecord> {
  using KeyNode::KeyNode;
  using List = LinkedList<WebLockRequest, &WebLockRequest::inRecord>;

  // Whether it could be held together with what is held now.
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
  // Kept for the next new name: an uncontended lock makes and drops a record each time.
  std::unique_ptr<WebLockRecord> spare;
  // Where a query wants a copy of what is here, before anything changes. nullptr: nowhere.
  WebLockCopy* asked = nullptr;
};

class WebLocks {
 public:
  static WebLocks& instance();

  // The manager of everybody who asks for no other.
  static constexpr std::uint64_t kDefaultManager = 0;
  // A number for another manager.
  std::uint64_t issueManager() { return nextManager_.fetch_add(1); }
  bool isManager(std::uint64_t manager) const { return manager < nextManager_.load(); }

  // ── on the request's thread. None of them wakes that thread: see WebLockClient::hasReady ──

  // The request is new. If the lock is unavailable, nothing is left of it.
  WebLockAnswer request(WebLockRequest& request, const KeyView& key, WebLockHow how);
  // Ends a request that is pending. False, and nothing happens, if it is not.
  bool cancel(WebLockRequest& request);
  // Ends a request, whatever its state. False if it was stolen.
  bool end(WebLockRequest& request);
  // Whoever has pushed a request before this call, to any client, is done with that client when it returns.
  void awaitPushers();

  // ── from any thread ──

  struct Info {
    Mode mode;
    bool held;
    std::int32_t threadId;
  };
  struct NameInfo {
    std::u16string name;
    // First those that hold it, then the queue.
    std::vector<Info> requests;
  };
  // All names of a manager at one moment.
  std::vector<NameInfo> query(std::uint64_t manager);
  // The number of names that somebody holds or waits for, of all managers.
  std::size_t size();

 private:
  static constexpr std::uint32_t kShards = 64;

  WebLocks() = default;
  // Locks it to change it (keeps W6).
  static ShortLock lockToChange(WebLockShard& shard);
  // All of these with the shard locked.
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
