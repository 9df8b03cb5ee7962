#include "core/table/inspect.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "core/table/participant.h"
#include "core/table/registry.h"

namespace stripelock {

namespace {

// `each`: true to list a thread once for each of its permits.
std::vector<std::int32_t> holdersOfWord(Table& table, std::uint32_t stripe, std::uint32_t word,
                                        bool each = false) {
  std::vector<std::int32_t> holders;
  if (namesHolder(word)) {
    const Participant* owner = Registry::instance().bySlot(holderOf(word));
    if (owner) holders.push_back(owner->threadId());
  } else if (countsHolds(word)) {
    const Lock lock(table.membersMutex);
    for (const Membership* member : table.members) {
      const std::uint32_t shares = member->sharesOf(stripe) + member->unnoticedOf(stripe);
      holders.insert(holders.end(), each ? shares : std::min(shares, 1u), member->participant().threadId());
    }
    // A thread counts a hold shortly before or after it changes the word, so the list may be too long.
    if (holders.size() > holderOf(word)) holders.resize(holderOf(word));
  }
  return holders;
}

std::vector<StripeInfo::Locals> localsOf(Table& table, std::uint32_t stripe) {
  std::vector<StripeInfo::Locals> locals;
  const Lock lock(table.membersMutex);
  for (const Membership* member : table.members) {
    const std::uint32_t count = member->localsAt(stripe);
    if (count != 0) locals.push_back({.threadId = member->participant().threadId(), .count = count});
  }
  return locals;
}

void attachNotes(std::vector<StripeInfo>& stripes, const std::vector<Note>& notes, Nanoseconds time) {
  for (const Note& note : notes) {
    for (const std::uint32_t stripe : note.stripes) {
      const auto before = [](const StripeInfo& info, std::uint32_t wanted) { return info.stripe < wanted; };
      const auto found = std::lower_bound(stripes.begin(), stripes.end(), stripe, before);
      // Skips a stripe that was not held when its word was read.
      if (found == stripes.end() || found->stripe != stripe) continue;
      const double held = static_cast<double>(std::max<Nanoseconds>(0, time - note.since)) / 1e6;
      found->traced.push_back({.threadId = note.threadId, .milliseconds = held, .note = note.text});
    }
  }
}

// Call it with the stripe's shard locked. Returns nullopt if the stripe is neither held nor waited for.
std::optional<StripeInfo> infoOf(Table& table, std::uint32_t stripe, Nanoseconds time) {
  const std::uint32_t word = table.word(stripe).load();
  const StripeQueue& queue = table.queueOf(stripe);
  if (isFree(word) && !queue.head) return std::nullopt;
  StripeInfo info{.stripe = stripe,
                  .word = word,
                  .holders = holdersOfWord(table, stripe, word, hasPermits(table.limit())),
                  .locals = localsOf(table, stripe)};
  for (const Waiter* waiter = queue.head; waiter; waiter = waiter->next) {
    info.waiters.push_back({.threadId = waiter->owner->threadId(),
                            .async = waiter->async,
                            .mode = waiter->mode,
                            .milliseconds = static_cast<double>(time - waiter->since) / 1e6,
                            .note = waiter->note ? *waiter->note : std::string()});
  }
  return info;
}

}  // namespace

std::vector<StripeInfo> inspect(Table& table) {
  std::vector<StripeInfo> stripes;
  const Nanoseconds time = now();
  if (KeyTable* const keys = table.keys()) {
    keys->forEach([&](std::string_view key, std::uint32_t stripe) {
      const Lock lock(table.shardOf(stripe));
      if (std::optional<StripeInfo> info = infoOf(table, stripe, time)) {
        info->key = key;
        stripes.push_back(std::move(*info));
      }
    });
    const auto before = [](const StripeInfo& one, const StripeInfo& other) {
      return one.stripe < other.stripe;
    };
    std::sort(stripes.begin(), stripes.end(), before);
  } else {
    Lock lock;
    for (std::uint32_t stripe = 0; stripe < table.stripes(); ++stripe) {
      Mutex& shard = table.shardOf(stripe);
      if (lock.mutex() != &shard) lock = Lock(shard);
      if (std::optional<StripeInfo> info = infoOf(table, stripe, time)) stripes.push_back(std::move(*info));
    }
  }
  attachNotes(stripes, table.notes.all(), time);
  return stripes;
}

std::vector<std::int32_t> holdersOf(Table& table, std::uint32_t stripe) {
  const Lock lock(table.shardOf(stripe));
  return holdersOfWord(table, stripe, table.word(stripe).load());
}

StripeCounts countsOf(Table& table, std::uint32_t stripe) {
  const Lock lock(table.shardOf(stripe));
  StripeCounts counts{.word = table.word(stripe).load(), .waiting = table.queueOf(stripe).length};
  const Lock membersLock(table.membersMutex);
  for (const Membership* member : table.members) counts.waiting += member->localsAt(stripe);
  return counts;
}

StripeCounts countsOf(Table& table, const KeyView& key) {
  StripeCounts counts;
  table.keys()->find(key, [&](std::uint32_t stripe) { counts = countsOf(table, stripe); });
  return counts;
}

LocalCounts countLocals(Table& table) {
  LocalCounts counts;
  const Lock lock(table.membersMutex);
  for (const Membership* member : table.members) {
    counts.waiting += member->localsAt(localWaitingIndex(table.stripes()));
    counts.contended += member->localsAt(localContendedIndex(table.stripes()));
  }
  return counts;
}

std::uint32_t countHeld(Table& table) {
  std::uint32_t held = 0;
  for (std::uint32_t stripe = 0; stripe < table.used(); ++stripe) {
    const std::uint32_t word = table.word(stripe).load();
    // A word that is kElsewhere stands for holders in other processes.
    if (!isFree(word) && !isHeldAloneBy(word, kElsewhere)) ++held;
  }
  return held;
}

std::uint32_t countInUse(Table& table) {
  std::uint32_t inUse = 0;
  for (std::uint32_t stripe = 0; stripe < table.used(); ++stripe) {
    if (table.word(stripe).load() != 0) ++inUse;
  }
  return inUse;
}

}  // namespace stripelock
