// The named locks of one Node.js environment, and the addon's functions for them.

#pragma once

#include <napi.h>

#include <cstddef>
#include <memory>

#include "core/named_client.h"
#include "node/protocol.h"

namespace stripelock {

// Numbers that JavaScript and the calls for named locks exchange, in memory that both see. As an argument or a result
// each number would cost 4 to 14 ns; here it costs 1 ns. protocol.h has the places and values.
struct NamedExchange {
  // To the addon: the manager's number.
  double manager;
  // To the addon: the mode, and how to get the lock.
  std::int32_t mode;
  std::int32_t how;
  // From namedRequest(): the request's number. To namedCancel() and namedRelease(): the number of the request to end.
  std::int32_t ticket;
  // From the addon: what came of the call.
  std::int32_t answer;
  // From the addon: whether takeNamedNews() has something to hand out.
  std::int32_t ready;
  std::int32_t unused;
};
static_assert(sizeof(NamedExchange) == kNamedBytes);
static_assert(offsetof(NamedExchange, manager) == kNamedManager * sizeof(double));
static_assert(offsetof(NamedExchange, mode) == kNamedMode * sizeof(std::int32_t));
static_assert(offsetof(NamedExchange, how) == kNamedHow * sizeof(std::int32_t));
static_assert(offsetof(NamedExchange, ticket) == kNamedTicket * sizeof(std::int32_t));
static_assert(offsetof(NamedExchange, answer) == kNamedAnswer * sizeof(std::int32_t));
static_assert(offsetof(NamedExchange, ready) == kNamedReady * sizeof(std::int32_t));

class NamedThread {
 public:
  // Once. `numbers` is shared memory of the size of a NamedExchange.
  void start(Participant& participant, Napi::Float64Array numbers);
  bool started() const { return client_ != nullptr; }
  // The thread ends. The reference to JavaScript memory stays.
  void end() { client_.reset(); }

  NamedClient& client() const { return *client_; }
  NamedExchange& exchange() const { return *exchange_; }

 private:
  std::unique_ptr<NamedClient> client_;
  NamedExchange* exchange_ = nullptr;
  Napi::Reference<Napi::Float64Array> numbers_;
};

// Adds the functions that lib/engine/native/named-locks.ts calls.
void addNamedLocks(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
