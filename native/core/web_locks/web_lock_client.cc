#include "core/web_locks/web_lock_client.h"

#include <new>

namespace stripelock {

WebLockClient::~WebLockClient() {
  for (std::uint32_t ticket = 0; ticket < requests_.size(); ++ticket) release(ticket);
  // mutant: W4-ends-under-thief
  WebLocks::instance().awaitPushers();
  for (void* const memory : spare_) ::operator delete(memory);
}

WebLockClient::Started WebLockClient::request(const KeyView& key, Mode mode, WebLockHow how) {
  WebLockRequest& request = make(mode);
  const std::uint32_t ticket = request.ticket;
  const WebLockAnswer answer = WebLocks::instance().request(request, key, how);
  switch (answer) {
    case WebLockAnswer::kHeld:
      break;
    case WebLockAnswer::kPending:
      // The request may already be granted, but only this thread accesses this field.
      request.untold = true;
      ++waiting_;
      break;
    case WebLockAnswer::kUnavailable:
      destroy(request);
      break;
  }
  return {.answer = answer, .ticket = ticket};
}

bool WebLockClient::cancel(std::uint32_t ticket) {
  WebLockRequest* const request = find(ticket);
  if (!request) return false;
  if (WebLocks::instance().cancel(*request)) {
    told(*request);
    // A pending request is not in the ready list.
    destroy(*request);
    return true;
  }
  told(*request);
  STRIPELOCK_SEAM("web lock cancel: before the ready list");
  // A steal is still reported, unless the request is released first.
  const Lock lock(readyMutex_);
  if (request->ready && request->state == WebLockRequest::State::kHeld) unlinkReady(*request);
  return false;
}

bool WebLockClient::release(std::uint32_t ticket) {
  WebLockRequest* const request = find(ticket);
  if (!request) return false;
  const bool kept = WebLocks::instance().end(*request);
  told(*request);
  forgetNews(*request);
  destroy(*request);
  return kept;
}

void WebLockClient::forgetNews(WebLockRequest& request) {
  // The request is in no record, so no thread can push it now. If it was pushed before, the list is not empty.
  if (!hasReady_.load()) return;
  const Lock lock(readyMutex_);
  if (request.ready) unlinkReady(request);
}

std::size_t WebLockClient::take(News* out, std::size_t room) {
  std::size_t count = 0;
  if (!hasReady_.load()) return 0;
  STRIPELOCK_SEAM("web lock take: before the ready list");
  const Lock lock(readyMutex_);
  while (count < room) {
    WebLockRequest* const request = readyList_.first();
    if (!request) break;
    unlinkReady(*request);
    const bool stolen = request->state == WebLockRequest::State::kStolen;
    out[count++] = {.ticket = request->ticket, .granted = request->untold, .stolen = stolen};
    told(*request);
    // The request is in no record, and no longer in the ready list.
    if (stolen) destroy(*request);
  }
  return count;
}

void WebLockClient::push(WebLockRequest& request, WebLockRequest::State state) {
  const Lock lock(readyMutex_);
  // Preserves W5.
  request.state = state;
  // mutant: W5-news-twice
  if (request.ready) return;
  request.ready = true;
  readyList_.pushBack(request);
  hasReady_.store(true);
}

void WebLockClient::unlinkReady(WebLockRequest& request) {
  readyList_.remove(request);
  request.ready = false;
  if (readyList_.empty()) hasReady_.store(false);
}

void WebLockClient::told(WebLockRequest& request) {
  if (!request.untold) return;
  request.untold = false;
  --waiting_;
}

WebLockRequest& WebLockClient::make(Mode mode) {
  void* memory = nullptr;
  if (spare_.empty()) {
    memory = ::operator new(sizeof(WebLockRequest));
  } else {
    memory = spare_.back();
    spare_.pop_back();
  }
  auto& request = *new (memory) WebLockRequest(*this, mode);
  if (freeTickets_.empty()) {
    request.ticket = static_cast<std::uint32_t>(requests_.size());
    requests_.push_back(&request);
  } else {
    request.ticket = freeTickets_.back();
    freeTickets_.pop_back();
    requests_[request.ticket] = &request;
  }
  return request;
}

void WebLockClient::destroy(WebLockRequest& request) {
  requests_[request.ticket] = nullptr;
  freeTickets_.push_back(request.ticket);
  request.~WebLockRequest();
  if (spare_.size() < kMostSpare) {
    spare_.push_back(&request);
  } else {
    ::operator delete(&request);
  }
}

}  // namespace stripelock
