// One thread's subscriptions to the release of keys in lease tables.
//
// A watch belongs to its thread. It is linked into its table, and unlinked, with the table locked. So a release finds
// only live watches, and a removed watch is no longer referenced. The event loop is woken once, however many keys were
// released before it runs (Participant::wakeReady).
//
// Order of locks: a table, then the ready list.

#pragma once

#include <memory>
#include <vector>

#include "core/base/exact_key.h"
#include "core/base/sync.h"

namespace stripelock {

class LeaseTable;
class LeaseWatches;
class Participant;

struct LeaseWatch {
  LeaseWatch(LeaseWatches& watcher, LeaseTable& watched, const KeyView& name, std::uint32_t number)
      : owner(watcher), table(watched), key(name), id(number) {}
  LeaseWatches& owner;
  LeaseTable& table;
  const ExactKey key;
  const std::uint32_t id;
  // Whether the watch is in the ready list. Guarded by the mutex of that list.
  bool ready = false;
};

class LeaseWatches {
 public:
  explicit LeaseWatches(Participant& participant) : participant_(participant) {}
  ~LeaseWatches();
  LeaseWatches(const LeaseWatches&) = delete;
  LeaseWatches& operator=(const LeaseWatches&) = delete;

  // ── by the thread itself ──

  // Adds a watch; at most one per key at a time. The returned id is valid until the watch is removed.
  std::uint32_t add(LeaseTable& table, const KeyView& key);
  // Returns false if the id is unknown.
  bool remove(std::uint32_t id);
  // Removes the watches of a table that the thread closes.
  void removeAll(const LeaseTable& table);
  // Hands out up to `room` ids of watches whose keys were released.
  std::size_t take(std::uint32_t* out, std::size_t room);

  // ── from any thread ──

  Participant& participant() const { return participant_; }
  // Call it with the watch's table locked. The caller wakes the participant after the table is unlocked.
  void push(LeaseWatch& watch);
  bool hasReady() const { return hasReady_.load(); }

 private:
  Participant& participant_;
  // The index is the id. Unused ids are null here and listed in freeIds_.
  std::vector<std::unique_ptr<LeaseWatch>> watches_;
  std::vector<std::uint32_t> freeIds_;

  Mutex readyMutex_;
  std::vector<LeaseWatch*> ready_;
  std::atomic<bool> hasReady_{false};
};

}  // namespace stripelock
