// What is going on in a table, for people.

#pragma once

#include <optional>
#include <vector>

#include "core/membership.h"

namespace stripelock {

struct StripeInfo {
  struct Waiting {
    std::int32_t threadId;
    bool async;
    bool shared;
    double milliseconds;
  };
  std::uint32_t stripe;
  std::uint32_t word;
  std::vector<std::int32_t> holders;
  std::vector<Waiting> waiters;
};

// The stripes that are held or waited for, ascending. Consistent for each stripe, not for all together.
std::vector<StripeInfo> inspect(Table& table);
// Threads that hold the stripe.
std::vector<std::int32_t> holdersOf(Table& table, std::uint32_t stripe);
std::uint32_t countHeld(Table& table);

}  // namespace stripelock
