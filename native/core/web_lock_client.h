// One thread's requests for web locks (web_locks.h).
//
// Only that thread uses this class, except for push(). A granted or stolen request is pushed, and the thread collects
// the news in its event loop, or between two of its own steps. If a request ends first, its news is dropped.
//
// When the thread ends, the destructor ends all requests in any state. From then on no thread can push. A thread that
// has pushed before may still have a shard locked, so the destructor waits for each shard (keeps W4).

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
    // The request's number until it ends. Meaningless if the lock is unavailable.
    std::uint32_t ticket;
  };
  Started request(const KeyView& key, Mode mode, WebLockHow how);
  // Ends a pending request. Returns false if it is not pending: a grant that was not collected is then not handed out
  // any more.
  bool cancel(std::uint32_t ticket);
  // Ends a request in any state. Its news is not handed out any more. Returns false if it was stolen, or if the ticket
  // is unknown.
  bool release(std::uint32_t ticket);

  struct News {
    std::uint32_t ticket;
    // It was pending, and was granted. If both fields are set, it was stolen after that.
    bool granted;
    // It has ended.
    bool stolen;
  };
  // Hands out up to `room` items.
  std::size_t take(News* out, std::size_t room);
  // Whether take() has news. The other calls may add news for this thread's own requests, and do not wake it for those.
  bool hasReady() const { return hasReady_.load(); }
  // The number of requests that are pending, or granted and not collected.
  std::uint32_t waiting() const { return waiting_; }

  // ── from any thread ──

  Participant& participant() const { return participant_; }
  // Sets the state of a request and puts it into the ready list. Call it with the request's shard locked. The caller
  // wakes the participant when the shard is unlocked.
  void push(WebLockRequest& request, WebLockRequest::State state);

 private:
  using ReadyList = LinkedList<WebLockRequest, &WebLockRequest::inReady>;

  // Creates a request and assigns its ticket.
  WebLockRequest& make(Mode mode);
  // The opposite of make(). No other thread may still reference the request.
  void destroy(WebLockRequest& request);
  WebLockRequest* find(std::uint32_t ticket) const {
    return ticket < requests_.size() ? requests_[ticket] : nullptr;
  }
  // Notes that the request no longer waits.
  void told(WebLockRequest& request);
  // Removes a request that is in no record from the ready list, if it is there.
  void forgetNews(WebLockRequest& request);
  // The caller has that list locked.
  void unlinkReady(WebLockRequest& request);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // With spare memory the sanitizers would miss the use of a freed request.
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
  // Whether the list is not empty. Set with the mutex locked.
  std::atomic<bool> hasReady_{false};
};

}  // namespace stripelock
