// The lease tables and fencing gates that one Node.js environment has open, and the addon's functions for leases.

#pragma once

#include <napi.h>

#include <cstddef>
#include <vector>

#include "core/leases/lease_registry.h"
#include "core/leases/lease_watches.h"

namespace stripelock {

class Leases {
 public:
  explicit Leases(Participant& participant) : watches(participant) {}
  // Call it on the environment's thread. Removes the watches; the leases stay until they expire.
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
