// One thread's requests for web locks (web_locks.h).
//
// Only that thread uses this class, except for push(). A request is pushed when it is granted or stolen, and the thread
// takes the news when it is back at its event loop, or between two of its own steps. A request that ends before takes
// its news along.
//
// The end of the thread. The destructor ends all requests, in whatever state they are. From then on nobody can push.
// Whoever has pushed before still has a shard locked, so the destructor waits for each shard (keeps W4).

#pragma once

#include <memory>
#include <vector>

#include "core/linked_list.h"
#include "core/sync.h"
#include "core/web_locks.h"

namespace stripelock {

class Participant;

class WebLockClient {
 public:
  explicit WebLockClient(Participant& participant) : participant_(participant) {}
  ~WebLockClient();
  WebLockClient(const WebLockClient&) = delete;
  WebLockClient& operator=(const WebLockClient&) = delete;

  // ── by the thread itself ──

  struct Started {
    WebLockAnswer answer;
    // Its number until it ends. Meaningless if the lock is unavailable.
    std::uint32_t ticket;
  };
  Started request(const KeyView& key, Mode mode, WebLockHow how);
  // Ends a pending request. False if it is not pending: a grant that was not taken yet is not handed out any more.
  bool cancel(std::uint32_t ticket);
  // Ends a request, whatever its state. Its news are not handed out any more. False if it was
  // stolen, or if there is none with that ticket.
  bool release(std::uint32_t ticket);

  struct News {
    std::uint32_t ticket;
    // It was pending, and was granted. If both are set, it was stolen after that.
    bool granted;
    // It has ended.
    bool stolen;
  };
  // Hands out up to `room`.
  std::size_t take(News* out, std::size_t room);
  // Whether take() has something to hand out. The other calls may bring news of this thread's requests, and do not wake
  // it for those.
  bool hasReady() const { return hasReady_.load(); }
  // Requests that are pending, or granted and not taken.
  std::uint32_t waiting() const { return waiting_; }

  // ── from any thread ──

  Participant& participant() const { return participant_; }
  // Sets the state of a request and puts it into the ready list. Call it with the request's shard locked. The caller
  // wakes the participant when the shard is unlocked.
  void push(WebLockRequest& request, WebLockRequest::State state);

 private:
  using ReadyList = LinkedList<WebLockRequest, &WebLockRequest::inReady>;

  // With a ticket.
  WebLockRequest& make(Mode mode);
  // The opposite of make(). Nobody else may still know the request.
  void destroy(WebLockRequest& request);
  WebLockRequest* find(std::uint32_t ticket) const {
    return ticket < requests_.size() ? requests_[ticket] : nullptr;
  }
  // It waits no more.
  void told(WebLockRequest& request);
  // Takes a request that is in no record out of the ready list, if it is there.
  void forgetNews(WebLockRequest& request);
  // The caller has that list locked.
  void unlinkReady(WebLockRequest& request);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // With spare memory the sanitizers would not see the use of a freed request.
  static constexpr std::size_t kMostSpare = 0;
#else
  static constexpr std::size_t kMostSpare = 256;
#endif

  Participant& participant_;
  // The index is the ticket. Unused tickets are null here and listed in freeTickets_.
  std::vector<WebLockRequest*> requests_;
  std::vector<std::uint32_t> freeTickets_;
  // Memory of ended requests, for new ones.
  std::vector<void*> spare_;
  std::uint32_t waiting_ = 0;

  Mutex readyMutex_;
  ReadyList readyList_;
  // Whether that list has any. Set with the mutex locked.
  std::atomic<bool> hasReady_{false};
};

}  // namespace stripelock
