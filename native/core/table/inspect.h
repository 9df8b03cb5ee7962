// The state of a table, for inspect() and error messages.

#pragma once

#include <string>
#include <vector>

#include "core/table/membership.h"

namespace stripelock {

struct StripeInfo {
  struct Waiting {
    std::int32_t threadId;
    bool async;
    Mode mode;
    double milliseconds;
    // Empty unless the acquisition is traced.
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
  // In an exact table, the bytes of the key.
  std::string key;
  // Each thread appears once, or once for each of its permits.
  std::vector<std::int32_t> holders;
  // The traced acquisitions of the holders.
  std::vector<Traced> traced;
  std::vector<Waiting> waiters;
  // The number of each thread's acquisitions that wait in JavaScript. Only that thread knows more about them.
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
// The word of a stripe, and the number of acquisitions that wait for the stripe, in all threads.
struct StripeCounts {
  std::uint32_t word = 0;
  std::uint32_t waiting = 0;
};
StripeCounts countsOf(Table& table, std::uint32_t stripe);
// The same counts for the stripe of a key of an exact table; zeros if the key has no stripe.
StripeCounts countsOf(Table& table, const KeyView& key);
std::uint32_t countHeld(Table& table);
// The number of stripes that are held or flagged as abandoned; in an exact table, the number of such keys.
std::uint32_t countInUse(Table& table);

// Counts of acquisitions that wait in JavaScript, each the sum over all threads.
struct LocalCounts {
  std::uint64_t waiting = 0;
  // The number of acquisitions that had to wait and are not counted in kContendedCell yet.
  std::uint64_t contended = 0;
};
LocalCounts countLocals(Table& table);

}  // namespace stripelock
