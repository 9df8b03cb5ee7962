// A set of participants to wake. Participants are added while a shard is locked, and woken after it is unlocked.

#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "core/table/contention_profile.h"

namespace stripelock {

class Participant;

class WakeSet {
 public:
  // `self`: the participant of the calling thread, if the caller itself checks for grants to that thread.
  explicit WakeSet(const Participant* self = nullptr) : self_(self) {}
  ~WakeSet() {
    if (count_ > 0) send();
  }
  WakeSet(const WakeSet&) = delete;
  WakeSet& operator=(const WakeSet&) = delete;

  // After this call, send() wakes the participant's thread from a sync wait.
  void addParked(Participant& participant) { add({&participant, false}); }
  // After this call, send() wakes the participant's event loop, which has events to collect: an async waiter that was
  // granted or designated, a web lock that was granted or stolen, or a lease watch that was called.
  void addReady(Participant& participant) {
    if (&participant != self_) add({&participant, true});
  }

  // Whether a profile records the wait of one of these participants.
  Draw draw = Draw::kNone;

  // Call it with no shard locked. Participants live forever (registry.h), so waking one is harmless even if its thread
  // has ended.
  void send();

 private:
  struct Entry {
    Participant* participant;
    bool ready;
  };
  void add(Entry entry) {
    if (count_ < few_.size()) {
      few_[count_++] = entry;
    } else {
      more_.push_back(entry);
    }
  }
  static void wake(const Entry& entry);

  const Participant* const self_;
  std::array<Entry, 4> few_;
  std::size_t count_ = 0;
  std::vector<Entry> more_;
};

}  // namespace stripelock
