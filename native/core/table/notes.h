// The notes of traced acquisitions, which inspect() reads from any thread. The core does not interpret the text.

#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/sync.h"

namespace stripelock {

class Membership;

struct Note {
  const Membership* membership;
  std::int32_t threadId;
  std::vector<std::uint32_t> stripes;
  std::string text;
  // When the stripes were acquired.
  Nanoseconds since;
};

// The notes of one table. Any thread may use them.
class Notes {
 public:
  // Returns the note's id, which is valid until the note is removed.
  std::uint32_t add(Note note);
  void remove(std::uint32_t id);
  // Call it when a membership ends. Removes its notes.
  void removeAll(const Membership& membership);
  std::vector<Note> all() const;

 private:
  mutable Mutex mutex_;
  std::unordered_map<std::uint32_t, Note> notes_;
  std::uint32_t nextId_ = 0;
};

}  // namespace stripelock
