// The notes of traced acquisitions, which inspect() reads from any thread. The core does not interpret the text.

#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/sync.h"

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

// The notes of one table. From any thread.
class Notes {
 public:
  // Returns its id until it is removed.
  std::uint32_t add(Note note);
  void remove(std::uint32_t id);
  // Removes the notes of one thread's membership, when that ends.
  void removeAll(const Membership& membership);
  std::vector<Note> all() const;

 private:
  mutable Mutex mutex_;
  std::unordered_map<std::uint32_t, Note> notes_;
  std::uint32_t nextId_ = 0;
};

}  // namespace stripelock
