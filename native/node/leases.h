// The lease tables and fencing gates that one Node.js environment has open, and the addon's functions for leases.

#pragma once

#include <napi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "core/lease_registry.h"
#include "core/lease_watches.h"
#include "node/protocol.h"

namespace stripelock {

// Numbers that JavaScript and the calls for leases exchange, in memory that both see. As an argument or a result each
// number would cost 4 to 14 ns; here it costs 1 ns. Times are in milliseconds. protocol.h has the places and values.
struct LeaseExchange {
  // To the addon: the table's number from leaseOpen(); the caller's time, or NaN for the steady clock; how long to
  // hold.
  double table;
  double at;
  double ttl;
  // To the addon, once: what to add to the steady clock's time to get `since`.
  double offset;
  // From the addon: when it granted the lease; or after how long to try again.
  double since;
  double retryAfter;
  // From the addon: what it granted. To the addon: what to release. A token, counted from the table's first. A double
  // is enough because no process grants 2^53 leases, and a BigInt costs the host more than an object.
  double grant;
  std::uint32_t hint;
  // From the addon.
  std::int32_t status;
};
static_assert(sizeof(LeaseExchange) == kExchangeBytes);
static_assert(offsetof(LeaseExchange, table) == kExchangeTable * sizeof(double));
static_assert(offsetof(LeaseExchange, at) == kExchangeAt * sizeof(double));
static_assert(offsetof(LeaseExchange, ttl) == kExchangeTtl * sizeof(double));
static_assert(offsetof(LeaseExchange, offset) == kExchangeOffset * sizeof(double));
static_assert(offsetof(LeaseExchange, since) == kExchangeSince * sizeof(double));
static_assert(offsetof(LeaseExchange, retryAfter) == kExchangeRetryAfter * sizeof(double));
static_assert(offsetof(LeaseExchange, grant) == kExchangeGrant * sizeof(double));
static_assert(offsetof(LeaseExchange, hint) == kExchangeHint * sizeof(std::int32_t));
static_assert(offsetof(LeaseExchange, status) == kExchangeStatus * sizeof(std::int32_t));

class Leases {
 public:
  explicit Leases(Participant& participant) : watches(participant) {}
  // On the environment's thread. Ends its watches, and stops keeping its leases. They stay until they expire.
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // Returns an index in this environment, or kNotOpened for a number that was not issued.
  std::int32_t openTable(std::uint64_t number, bool ownClock);
  std::int32_t openGate(std::uint64_t number, std::uint32_t capacity);
  void closeTable(std::uint32_t index);
  void closeGate(std::uint32_t index);
  // nullptr if nothing is open at the index.
  LeaseTable* table(std::uint32_t index) const {
    return index < tables_.size() ? tables_[index].object : nullptr;
  }
  FencingGate* gate(std::uint32_t index) const {
    return index < gates_.size() ? gates_[index].object : nullptr;
  }

  LeaseWatches watches;
  // It keeps the leases of this thread. Not made by std::make_shared: without RTTI that needs the libstdc++ of GCC 9.
  const std::shared_ptr<LeaseKeeper> keeper{new LeaseKeeper()};
  // nullptr until leaseExchange() is called.
  LeaseExchange* exchange = nullptr;

 private:
  template <typename Object>
  struct Open {
    Object* object = nullptr;
    std::uint64_t number = 0;
  };
  template <typename Object>
  static std::int32_t place(std::vector<Open<Object>>& list, Object* object, std::uint64_t number);

  std::vector<Open<LeaseTable>> tables_;
  std::vector<Open<FencingGate>> gates_;
};

// Adds the functions that lib/engine/native/leases.ts calls.
void addLeases(Napi::Env env, Napi::Object exports);

}  // namespace stripelock
