// The lease tables and fencing gates of the process, by number.
//
// A thread that opens a number uses the object until it closes it. The registry drops an unused object as soon as no
// information is lost, and creates it again when a thread opens its number: a handle may be on its way between threads
// while no thread has the object open.
//
//   a lease table   stays while leases in it have not expired. A new one starts with a higher token.
//   a gate          stays only as its highest token, which becomes the floor of the new gate. Beyond kRemembered such
//                   tokens, the lowest is forgotten; a gate with a forgotten number starts with the highest of the
//                   forgotten tokens.

#pragma once

#include <memory>
#include <unordered_map>

#include "core/fencing_gate.h"
#include "core/lease_table.h"

namespace stripelock {

class LeaseRegistry {
 public:
  static LeaseRegistry& instance();

  // The number of unused gates that keep their own floor.
  static constexpr std::size_t kRemembered = 1024;

  // A new number for a table.
  std::uint64_t issue();
  // The same for a gate.
  std::uint64_t issueGate();
  // Returns nullptr for a number that was never issued. `ownClock`: the callers pass the times. Once such a table is
  // closed, its time is unknown, so it stays while it has entries.
  LeaseTable* openTable(std::uint64_t number, bool ownClock);
  void closeTable(std::uint64_t number);
  // nullptr for a number that was never issued. The capacity counts only for the first thread that opens the gate.
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
    // It was opened and closed again.
    bool remembered = false;
  };

  LeaseRegistry() = default;
  bool issued(std::uint64_t number) const { return number > 0 && number < next_; }
  // Drops unused tables whose leases have expired.
  void sweepUnused();
  void forgetLowestGate();

  Mutex mutex_;
  std::uint64_t next_ = 1;
  // All tokens of dropped tables are below this.
  std::uint64_t firstToken_ = 0;
  std::unordered_map<std::uint64_t, SharedTable> tables_;
  std::size_t unused_ = 0;
  std::unordered_map<std::uint64_t, SharedGate> gates_;
  std::size_t remembered_ = 0;
  std::uint64_t forgotten_ = 0;
};

}  // namespace stripelock
