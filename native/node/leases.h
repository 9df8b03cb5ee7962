// What one Node.js environment keeps open of lease tables and fencing gates, and the addon's exports for them.

#pragma once

#include <napi.h>

#include <array>
#include <memory>
#include <vector>

#include "core/lease_registry.h"
#include "core/lease_watches.h"

namespace stripelock {

// What goes between JavaScript and the calls of leases in memory that both see: as an argument or a result each number
// would cost 4 to 14 ns, here one. Times are milliseconds. lib/engine/native/lease-exchange.ts has the same layout.
struct LeaseExchange {
  enum Status : std::uint32_t {
    kNo,
    kDone,
    // Released, and leaseTake() has something.
    kDoneAndReady,
    // The hint is out of date: ask by the key.
    kUnknown,
  };
  // To the addon: which table, as leaseOpen() has numbered it; the caller's time, NaN for the steady clock's; for how
  // long to hold.
  double table;
  double at;
  double ttl;
  // To the addon, once: what is to be added to the steady clock's time for `since`.
  double offset;
  // From the addon: when it was granted; or after what time to try again.
  double since;
  double retryAfter;
  // From the addon what was granted; to it, what to release: a token, counted from the table's first. A double, as all
  // tables there are will not make 2^53 of them, and a BigInt costs the host more than an object.
  double grant;
  std::uint32_t hint;
  // From the addon.
  Status status;
};

class Leases {
 public:
  explicit Leases(Participant& participant) : watches(participant) {}
  // On the environment's thread. Its watches are gone then; its leases stay until their time is over.
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // An index in this environment, or -1 where there is no such number.
  std::int32_t openTable(std::uint64_t number, bool ownClock);
  std::int32_t openGate(std::uint64_t number, std::uint32_t capacity);
  void closeTable(std::uint32_t index);
  void closeGate(std::uint32_t index);
  // nullptr for an index that is not open.
  LeaseTable* table(std::uint32_t index) const {
    return index < tables_.size() ? tables_[index].object : nullptr;
  }
  FencingGate* gate(std::uint32_t index) const {
    return index < gates_.size() ? gates_[index].object : nullptr;
  }

  LeaseWatches watches;
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
