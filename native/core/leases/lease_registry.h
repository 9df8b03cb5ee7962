// The lease tables and fencing gates of the process, by number.
//
// A thread opens an object (a table or a gate) by its number, uses the object, and closes it. The registry drops an
// unused object as soon as this loses no information. If a thread opens the number again, the registry creates the
// object again. This can happen because a handle may be on its way between threads while no thread has the object open.
//
//   lease table   Dropped when all its leases have expired. A new table starts with a token above all earlier tokens.
//   fencing gate  Dropped when the last thread has closed it. The registry keeps only its highest token, which becomes
//                 the floor when the gate is created again. The registry keeps at most kRemembered such tokens, and
//                 forgets the lowest first. A forgotten gate starts with the highest of all forgotten tokens.

#pragma once

#include <memory>
#include <unordered_map>

#include "core/leases/fencing_gate.h"
#include "core/leases/lease_table.h"

namespace stripelock {

class LeaseRegistry {
 public:
  static LeaseRegistry& instance();

  // The number of unused gates that keep their own floor.
  static constexpr std::size_t kRemembered = 1024;

  // A new number for a table.
  std::uint64_t issue();
  // A new number for a gate.
  std::uint64_t issueGate();
  // Returns nullptr for a number that was never issued. `ownClock`: true if the callers pass the time. After such a
  // table is closed, the registry does not know that time, so the table stays while it has entries.
  LeaseTable* openTable(std::uint64_t number, bool ownClock);
  void closeTable(std::uint64_t number);
  // Returns nullptr for a number that was never issued. Only the first thread that opens a gate sets its capacity.
  FencingGate* openGate(std::uint64_t number, std::uint32_t capacity);
  void closeGate(std::uint64_t number);

  // The number of existing objects, used or not.
  std::size_t tables();
  std::size_t gates();

 private:
  struct SharedTable {
    std::unique_ptr<LeaseTable> table;
    bool ownClock = false;
    std::uint32_t users = 0;
  };
  struct SharedGate {
    std::unique_ptr<FencingGate> gate;
    std::uint64_t floor = 0;
    std::uint32_t users = 0;
    // Whether the gate was closed and its floor is kept.
    bool remembered = false;
  };

  LeaseRegistry() = default;
  bool issued(std::uint64_t number) const { return number > 0 && number < next_; }
  // Drops unused tables whose leases have expired.
  void sweepUnused();
  void forgetLowestGate();

  Mutex mutex_;
  std::uint64_t next_ = 1;
  // All tokens of dropped tables are below this number.
  std::uint64_t firstToken_ = 0;
  std::unordered_map<std::uint64_t, SharedTable> tables_;
  std::size_t unused_ = 0;
  std::unordered_map<std::uint64_t, SharedGate> gates_;
  std::size_t remembered_ = 0;
  std::uint64_t forgotten_ = 0;
};

}  // namespace stripelock
