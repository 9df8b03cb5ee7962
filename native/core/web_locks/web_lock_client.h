// One thread's requests for web locks (web_locks.h).
//
// Only that thread uses this class, except for push(). A thread that grants or steals a request pushes the request into
// the ready list. The owning thread collects this news (a grant or a steal) in its event loop, or soon after one of its
// own calls. If the request ends first, the news is dropped.
//
// When the thread ends, the destructor ends all requests, whatever their state. After that, no thread can start a push.
// A thread that has already pushed may still have a shard locked, so the destructor waits for each shard (preserves
// W4).

#pragma once

#include <memory>
#include <vector>

#include "core/base/linked_list.h"
#include "core/base/sync.h"
#include "core/web_locks/web_locks.h"

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
    // The request's number, valid until the request ends. Meaningless if the lock is unavailable.
    std::uint32_t ticket;
  };
  Started request(const KeyView& key, Mode mode, WebLockHow how);
  // Ends a pending request. Returns false if the request is not pending. In that case, take() will not report the
  // grant.
  bool cancel(std::uint32_t ticket);
  // Ends a request in any state; take() will not report it. Returns false if the request was stolen, or if the ticket
  // is unknown.
  bool release(std::uint32_t ticket);

  struct News {
    std::uint32_t ticket;
    // True if the request was pending and was granted. If both fields are true, the request was stolen after the grant.
    bool granted;
    // True if the request was stolen, and so has ended.
    bool stolen;
  };
  // Hands out up to `room` items, and returns their number.
  std::size_t take(News* out, std::size_t room);
  // Whether take() has news. Calls by this thread may add news for its own requests, without waking the thread.
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
  // Frees a request and its ticket. No other thread may still reference the request.
  void destroy(WebLockRequest& request);
  WebLockRequest* find(std::uint32_t ticket) const {
    return ticket < requests_.size() ? requests_[ticket] : nullptr;
  }
  // Counts the request as no longer waiting, if it still counts as waiting.
  void told(WebLockRequest& request);
  // Removes the request from the ready list, if it is there. The request must not be in a record.
  void forgetNews(WebLockRequest& request);
  // Call it with the ready list locked.
  void unlinkReady(WebLockRequest& request);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // If memory were reused here, the sanitizers would miss the use of a freed request.
  static constexpr std::size_t kMostSpare = 0;
#else
  static constexpr std::size_t kMostSpare = 256;
#endif

  Participant& participant_;
  // The index is the ticket. Unused tickets are null here and listed in freeTickets_.
  std::vector<WebLockRequest*> requests_;
  std::vector<std::uint32_t> freeTickets_;
  // Memory of ended requests, reused for new ones.
  std::vector<void*> spare_;
  std::uint32_t waiting_ = 0;

  Mutex readyMutex_;
  ReadyList readyList_;
  // Whether the list is not empty. Set with the mutex locked.
  std::atomic<bool> hasReady_{false};
};

}  // namespace stripelock
