// The web locks of one Node.js environment, and the addon's functions for them.

#pragma once

#include <napi.h>

#include <cstddef>
#include <memory>

#include "core/web_locks/web_lock_client.h"
#include "node/protocol.h"

namespace stripelock {

// Numbers that JavaScript and the calls for web locks exchange in shared memory. As an argument or a result, each
// number would cost 4 to 14 ns; here it costs 1 ns. protocol.h has the places and values.
struct WebLockExchange {
  // To the addon: the manager's number.
  double manager;
  // To the addon: the mode of the lock, and what to do if it is held (WebLockHow).
  std::int32_t mode;
  std::int32_t how;
  // From webLockRequest(): the request's number. To webLockCancel() and webLockRelease(): the number of the request
  // that the call ends.
  std::int32_t ticket;
  // From the addon: the outcome of the call.
  std::int32_t answer;
  // From the addon: whether takeWebLockNews() has entries.
  std::int32_t ready;
  std::int32_t unused;
};
static_assert(sizeof(WebLockExchange) == kWebLockBytes);
static_assert(offsetof(WebLockExchange, manager) == kWebLockManager * sizeof(double));
static_assert(offsetof(WebLockExchange, mode) == kWebLockMode * sizeof(std::int32_t));
static_assert(offsetof(WebLockExchange, how) == kWebLockHow * sizeof(std::int32_t));
static_assert(offsetof(WebLockExchange, ticket) == kWebLockTicket * sizeof(std::int32_t));
static_assert(offsetof(WebLockExchange, answer) == kWebLockAnswer * sizeof(std::int32_t));
static_assert(offsetof(WebLockExchange, ready) == kWebLockReady * sizeof(std::int32_t));

class WebLockThread {
 public:
  // Call it once. `numbers` is shared memory of the size of a WebLockExchange.
  void start(Participant& participant, Napi::Float64Array numbers);
  bool started() const { return client_ != nullptr; }
  // Call it when the thread ends. Keeps the reference to JavaScript memory.
  void end() { client_.reset(); }

  WebLockClient& client() const { return *client_; }
  WebLockExchange& exchange() const { return *exchange_; }

 private:
  std::unique_ptr<WebLockClient> client_;
  WebLockExchange* exchange_ = nullptr;
  Napi::Reference<Napi::Float64Array> numbers_;
};

// Adds the functions that lib/engine/native/web-locks.ts calls.
void addWebLocks(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
