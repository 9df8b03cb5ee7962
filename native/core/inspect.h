// The state of a table, for people to read.

#pragma once

#include <string>
#include <vector>

#include "core/membership.h"

namespace stripelock {

struct StripeInfo {
  struct Waiting {
    std::int32_t threadId;
    bool async;
    Mode mode;
    double milliseconds;
    // Empty unless traced.
    std::string note;
  };
  // A traced acquisition.
  struct Traced {
    std::int32_t threadId;
    double milliseconds;
    std::string note;
  };
  std::uint32_t stripe;
  std::uint32_t word;
  // The key as it was pinned, in an exact table.
  std::string key;
  // Each thread appears once or, where it has permits, once for each of them.
  std::vector<std::int32_t> holders;
  // The holders' acquisitions that were traced.
  std::vector<Traced> traced;
  std::vector<Waiting> waiters;
  // Those that wait in JavaScript, of which only their own thread knows more.
  struct Locals {
    std::int32_t threadId;
    std::uint32_t count;
  };
  std::vector<Locals> locals;
};

// The stripes that are held or waited for, ascending. Consistent per stripe, not across stripes.
std::vector<StripeInfo> inspect(Table& table);
// Threads that hold the stripe, each once.
std::vector<std::int32_t> holdersOf(Table& table, std::uint32_t stripe);
// How a stripe is held, and how many acquisitions wait for it, of all threads.
struct StripeCounts {
  std::uint32_t word = 0;
  std::uint32_t waiting = 0;
};
StripeCounts countsOf(Table& table, std::uint32_t stripe);
// The same for a key of an exact table.
StripeCounts countsOf(Table& table, const KeyView& key);
std::uint32_t countHeld(Table& table);
// How many stripes are held or flagged as abandoned: in an exact table, as many keys.
std::uint32_t countInUse(Table& table);

// What all threads count of their acquisitions that wait in JavaScript.
struct LocalCounts {
  std::uint64_t waiting = 0;
  // Those that had to wait, as far as the table's own cell does not have them.
  std::uint64_t contended = 0;
};
LocalCounts countLocals(Table& table);

}  // namespace stripelock
