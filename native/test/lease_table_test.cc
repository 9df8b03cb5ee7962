#include "core/leases/lease_table.h"

#include <optional>

#include <gtest/gtest.h>

#include "core/base/platform.h"
#include "test/support.h"

namespace stripelock::test {

namespace {

constexpr Nanoseconds kTtl = 1000;

// A thread that watches keys.
struct Watcher {
  Environment environment;
  LeaseWatches watches{environment.participant()};

  std::vector<std::uint32_t> take() {
    std::array<std::uint32_t, 8> ids{};
    // The host also does this first. It ends the current wake, so that the next release sends a new one.
    takeGrants(environment);
    const std::size_t count = watches.take(ids.data(), ids.size());
    return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count)};
  }
};

// A table whose time the test sets.
struct Leases {
  std::uint64_t acquire(std::string_view key, std::string_view owner, Nanoseconds ttl = kTtl) {
    return table.tryAcquire(claim(key, owner), ttl, "", somebody.watches).token;
  }
  LeaseTable::Grant turn(std::string_view key, std::string_view owner, const Watcher& watcher) {
    return table.tryAcquire(claim(key, owner), kTtl, "", watcher.watches);
  }
  bool renew(std::string_view key, std::string_view owner, Nanoseconds ttl = kTtl) {
    return table.renew(claim(key, owner), ttl);
  }
  bool release(std::string_view key, std::string_view owner, const LeaseWatches* self = nullptr) {
    return table.end(claim(key, owner), 0, self);
  }
  bool keep(std::string_view key, std::string_view owner, std::uint64_t token, Nanoseconds length,
            const LeaseWatches* self = nullptr) {
    return table.keep(claim(key, owner), token, keptOwner(owner), length, self);
  }
  static std::string keptOwner(std::string_view owner) { return "kept:" + std::string(owner); }
  LeaseTable::SharedGrant join(std::string_view key, std::string_view reader, Nanoseconds ttl = kTtl) {
    return table.join(claim(key, reader), ttl, somebody.watches);
  }
  bool leave(std::string_view key, std::string_view reader, const LeaseWatches* self = nullptr) {
    return table.leave(claim(key, reader), self) != LeaseTable::Leave::kNotIn;
  }
  bool putOff(std::string_view key, Nanoseconds length) {
    return table.putOffReaders(KeyView(key), length, time);
  }
  std::optional<LeaseTable::Info> inspect(std::string_view key) { return table.inspect(KeyView(key), time); }
  LeaseTable::Claim claim(std::string_view key, std::string_view owner) const {
    return {.key = KeyView(key), .owner = owner, .at = time};
  }

  LeaseTable table{100};
  Nanoseconds time = 0;
  // A thread that watches nothing.
  Watcher somebody;
};

}  // namespace

TEST(LeaseTable, ReleasesOnlyTheGrantThatIsNamed) {
  Leases leases;
  const LeaseTable::Claim claim = leases.claim("key", "a");
  const std::uint64_t first = leases.acquire("key", "a");
  const std::uint64_t second = leases.acquire("key", "a");
  ASSERT_GT(second, first);
  EXPECT_FALSE(leases.table.end(claim, first, nullptr));
  EXPECT_FALSE(leases.table.end(leases.claim("key", "b"), second, nullptr)) << "another owner";
  EXPECT_EQ(leases.inspect("key")->token, second);
  EXPECT_TRUE(leases.table.end(claim, second, nullptr));
  EXPECT_EQ(leases.table.size(), 0u);
}

TEST(LeaseTable, KeepsOnlyTheGrantThatIsNamed) {
  Leases leases;
  const std::uint64_t first = leases.acquire("key", "a");
  const std::uint64_t second = leases.acquire("key", "a");
  const auto expectState = [&](std::string_view owner, Nanoseconds remaining) {
    const std::optional<LeaseTable::Info> state = leases.inspect("key");
    ASSERT_TRUE(state.has_value());
    EXPECT_EQ(state->owner, owner);
    EXPECT_EQ(state->token, second);
    EXPECT_EQ(state->remaining, remaining);
  };
  EXPECT_FALSE(leases.keep("key", "a", first, 10));
  EXPECT_FALSE(leases.keep("key", "b", second, 10)) << "another owner";
  EXPECT_FALSE(leases.keep("free", "a", second, 10));
  expectState("a", kTtl);
  EXPECT_TRUE(leases.keep("key", "a", second, 10));
  expectState("kept:a", 10);
  EXPECT_FALSE(leases.keep("key", "a", first, 20));
  EXPECT_FALSE(leases.keep("key", "b", second, 20)) << "another owner";
  EXPECT_TRUE(leases.keep("key", "a", second, 20)) << "the same request again";
  expectState("kept:a", 10);
  leases.time = 10;
  EXPECT_FALSE(leases.keep("key", "a", second, 20)) << "its time has passed";
  EXPECT_FALSE(leases.inspect("key").has_value());
}

TEST(LeaseTable, RefusesAKeptKeyToTheOwnerOfTheGrant) {
  Leases leases;
  const LeaseTable::Claim claim = leases.claim("key", "a");
  const std::uint64_t token = leases.acquire("key", "a");
  EXPECT_TRUE(leases.keep("key", "a", token, 10));
  EXPECT_EQ(leases.table.tryAcquire(claim, kTtl, "", leases.somebody.watches).retryAfter, 10);
  EXPECT_EQ(leases.join("key", "a").retryAfter, 10);
  EXPECT_FALSE(leases.renew("key", "a"));
  EXPECT_FALSE(leases.table.end(claim, 0, nullptr));
  EXPECT_FALSE(leases.table.end(claim, token, nullptr));
  EXPECT_FALSE(leases.table.takeBack(claim, token, true, nullptr));
  EXPECT_EQ(leases.inspect("key")->remaining, 10);
  EXPECT_TRUE(leases.table.end(leases.claim("key", leases.keptOwner("a")), token, nullptr));
  EXPECT_GT(leases.acquire("key", "a"), token);
  EXPECT_EQ(leases.inspect("key")->owner, "a");
  EXPECT_TRUE(leases.release("key", "a"));
}

TEST(LeaseTable, ShortensNothingByAnotherGrantToTheSameOwner) {
  Leases leases;
  const std::uint64_t first = leases.acquire("key", "a");
  EXPECT_GT(leases.acquire("key", "a", 1), first);
  EXPECT_EQ(leases.inspect("key")->remaining, kTtl);
  leases.acquire("key", "a", 2 * kTtl);
  EXPECT_EQ(leases.inspect("key")->remaining, 2 * kTtl);
  leases.time = 2 * kTtl;
  leases.acquire("key", "a", 1);
  EXPECT_EQ(leases.inspect("key")->remaining, 1) << "the lease had expired";

  const LeaseTable::SharedGrant readers = leases.join("read", "r1");
  leases.acquire("read", readers.group, 1);
  EXPECT_EQ(leases.inspect("read")->remaining, kTtl) << "the group of readers";
  leases.join("put off", "r1");
  leases.putOff("put off", 100);
  EXPECT_TRUE(leases.leave("put off", "r1"));
  leases.acquire("put off", "a", 1);
  EXPECT_EQ(leases.inspect("put off")->remaining, 1) << "the key was free";
}

TEST(LeaseTable, ReleasesNothingThatHasExpired) {
  Leases leases;
  Watcher watcher;
  leases.acquire("key", "a");
  watcher.watches.add(leases.table, KeyView("key"));
  leases.time = kTtl;
  EXPECT_FALSE(leases.release("key", "a"));
  EXPECT_TRUE(watcher.take().empty()) << "it was free before";
}

TEST(LeaseTable, RemembersThatALeaseEndedWithoutARelease) {
  Leases leases;
  const auto grant = [&](std::string_view key, std::string_view owner) {
    return leases.table.tryAcquire(leases.claim(key, owner), kTtl, "", leases.somebody.watches);
  };
  EXPECT_FALSE(grant("key", "a").abandoned);
  leases.time = kTtl;
  EXPECT_TRUE(grant("key", "b").abandoned);
  EXPECT_TRUE(grant("key", "b").abandoned) << "the same owner again";
  leases.release("key", "b");
  const LeaseTable::Grant kept = grant("key", "c");
  EXPECT_FALSE(kept.abandoned);
  EXPECT_TRUE(leases.keep("key", "c", kept.token, kTtl));
  leases.time += kTtl;
  EXPECT_FALSE(grant("key", "d").abandoned) << "it was kept after its end";

  leases.time += kTtl;
  leases.acquire("other", "a");  // sweeps the entry
  EXPECT_EQ(leases.table.size(), 1u);
  EXPECT_TRUE(grant("key", "e").abandoned);
}

TEST(LeaseTable, TakesBackAGrantWithoutARelease) {
  Leases leases;
  Watcher watcher;
  watcher.watches.add(leases.table, KeyView("key"));
  const auto grant = [&] {
    return leases.table.tryAcquire(leases.claim("key", "a"), kTtl, "", watcher.watches);
  };
  const auto takeBack = [&](std::uint64_t token, bool wasUsed) {
    return leases.table.takeBack(leases.claim("key", "a"), token, wasUsed, nullptr);
  };
  EXPECT_TRUE(takeBack(grant().token, false));
  EXPECT_EQ(watcher.take().size(), 1u) << "notifies like a release";
  const LeaseTable::Grant used = grant();
  EXPECT_FALSE(used.abandoned);
  EXPECT_FALSE(takeBack(used.token + 1, true));
  EXPECT_TRUE(takeBack(used.token, true));
  EXPECT_EQ(leases.table.size(), 0u);
  const LeaseTable::Grant unused = grant();
  EXPECT_TRUE(unused.abandoned);
  EXPECT_TRUE(takeBack(unused.token, false));
  const LeaseTable::Grant kept = grant();
  EXPECT_TRUE(kept.abandoned);
  EXPECT_TRUE(leases.keep("key", "a", kept.token, 1));
  EXPECT_FALSE(takeBack(kept.token, true));
  const std::string keptOwner = leases.keptOwner("a");
  const LeaseTable::Claim keptClaim = leases.claim("key", keptOwner);
  EXPECT_TRUE(leases.table.takeBack(keptClaim, kept.token, true, nullptr));
  EXPECT_FALSE(grant().abandoned) << "it was released before";
}

TEST(LeaseTable, ForgetsTheKeysThatWereAbandonedFirst) {
  Leases leases;
  const std::size_t count = LeaseTable::kRemembered + 2;
  for (std::size_t i = 0; i < count; ++i) {
    leases.acquire(std::to_string(i), "a");
    ++leases.time;
  }
  leases.time += kTtl;
  EXPECT_TRUE(leases.table.sweepAll(leases.time));
  const auto isAbandoned = [&](std::size_t i) {
    const std::string key = std::to_string(i);
    return leases.table.tryAcquire(leases.claim(key, "b"), kTtl, "", leases.somebody.watches).abandoned;
  };
  EXPECT_FALSE(isAbandoned(0));
  EXPECT_FALSE(isAbandoned(1));
  EXPECT_TRUE(isAbandoned(2));
  EXPECT_TRUE(isAbandoned(count - 1));
}

TEST(LeaseTable, ShortensNothingByARenewal) {
  Leases leases;
  leases.acquire("key", "a");
  EXPECT_TRUE(leases.renew("key", "a", 1));
  EXPECT_EQ(leases.inspect("key")->remaining, kTtl);
  EXPECT_FALSE(leases.renew("key", "b"));
}

TEST(LeaseTable, KeepsATextWithALeaseUntilItIsGrantedAgain) {
  Leases leases;
  const LeaseTable::Claim claim = leases.claim("key", "a");
  leases.table.tryAcquire(claim, kTtl, "one", leases.somebody.watches);
  EXPECT_TRUE(leases.renew("key", "a"));
  EXPECT_EQ(leases.inspect("key")->info, "one");
  const std::string_view two = "two";
  EXPECT_TRUE(leases.table.renew(claim, kTtl, &two));
  EXPECT_EQ(leases.inspect("key")->info, "two");
  leases.acquire("key", "a");
  EXPECT_EQ(leases.inspect("key")->info, "");
}

TEST(LeaseTable, ReadsTheClockThatCountsWhileTheMachineIsSuspended) {
  Leases leases;
  const Nanoseconds before = elapsed();
  const LeaseTable::Claim claim{.key = KeyView("key"), .owner = "a"};
  leases.table.tryAcquire(claim, kAnHour, "", leases.somebody.watches);
  const Nanoseconds after = elapsed();
  EXPECT_TRUE(leases.table.inspect(KeyView("key"), before + kAnHour - 1).has_value());
  EXPECT_FALSE(leases.table.inspect(KeyView("key"), after + kAnHour).has_value());
}

TEST(LeaseTable, IsFreedByTheLastReader) {
  Leases leases;
  Watcher watcher;
  watcher.watches.add(leases.table, KeyView("key"));
  const LeaseTable::SharedGrant first = leases.join("key", "r1");
  const LeaseTable::SharedGrant second = leases.join("key", "r2");
  ASSERT_NE(first.token, 0u);
  EXPECT_EQ(second.token, first.token);
  std::string group = "r1";
  for (const char character : ":" + std::to_string(first.token)) group.append({character, '\0'});
  EXPECT_EQ(first.group, group) << "the added part is UTF-16";
  EXPECT_EQ(second.group, first.group);
  EXPECT_EQ(leases.acquire("key", "writer"), 0u);
  EXPECT_FALSE(leases.leave("key", "r3"));
  EXPECT_TRUE(leases.leave("key", "r1"));
  EXPECT_FALSE(leases.leave("key", "r1"));
  EXPECT_TRUE(watcher.take().empty()) << "another reader still holds the key";
  EXPECT_EQ(leases.acquire("key", "writer"), 0u);
  EXPECT_TRUE(leases.leave("key", "r2"));
  EXPECT_EQ(watcher.take().size(), 1u);
  EXPECT_EQ(leases.table.size(), 0u);
  const LeaseTable::Grant writer = leases.turn("key", "writer", watcher);
  EXPECT_GT(writer.token, first.token);
  const LeaseTable::SharedGrant refused = leases.join("key", "r4");
  EXPECT_EQ(refused.token, 0u);
  EXPECT_EQ(refused.retryAfter, kTtl);
  EXPECT_FALSE(leases.leave("key", "writer")) << "the owner of a key is not a reader";
}

TEST(LeaseTable, CountsAReaderOnce) {
  Leases leases;
  leases.join("key", "r1");
  leases.join("key", "r1");
  EXPECT_TRUE(leases.leave("key", "r1"));
  EXPECT_EQ(leases.table.size(), 0u);
}

TEST(LeaseTable, LastsForAGroupUntilTheLatestExpiryOfItsReaders) {
  Leases leases;
  const std::string group = leases.join("key", "r1", 100).group;
  leases.join("key", "r2", 10);
  EXPECT_EQ(leases.inspect("key")->remaining, 100);
  leases.time = 50;
  leases.join("key", "r1", 100);
  EXPECT_EQ(leases.inspect("key")->remaining, 100);
  EXPECT_TRUE(leases.leave("key", "r1"));
  EXPECT_EQ(leases.inspect("key")->remaining, 100) << "a reader that leaves shortens nothing";
  EXPECT_TRUE(leases.renew("key", group, 200));
  EXPECT_FALSE(leases.renew("key", "r2", 200)) << "a reader is not an owner";
  EXPECT_EQ(leases.inspect("key")->remaining, 200);
  leases.time = 250;
  EXPECT_FALSE(leases.leave("key", "r2"));
  const LeaseTable::SharedGrant next = leases.join("key", "r1");
  EXPECT_NE(next.group, group);
  EXPECT_FALSE(leases.renew("key", group, 200)) << "a new group has another name";
  EXPECT_FALSE(leases.leave("key", "r2")) << "a new group has none of the old readers";
}

TEST(LeaseTable, RefusesNewReadersWhileTheyArePutOff) {
  Leases leases;
  EXPECT_FALSE(leases.putOff("key", 10));
  const std::string group = leases.join("key", "r1").group;
  EXPECT_TRUE(leases.putOff("key", 100));
  EXPECT_TRUE(leases.putOff("key", 10)) << "shortens nothing";
  EXPECT_EQ(leases.join("key", "r2").retryAfter, 100);
  EXPECT_NE(leases.join("key", "r1").token, 0u) << "a reader of the group";
  EXPECT_TRUE(leases.renew("key", group));
  leases.time = 99;
  EXPECT_EQ(leases.join("key", "r2").retryAfter, 1);
  leases.time = 100;
  EXPECT_NE(leases.join("key", "r2").token, 0u);
  EXPECT_TRUE(leases.putOff("key", kAnHour));
  EXPECT_EQ(leases.join("key", "r5").retryAfter, kTtl) << "no later than the group's expiry";
  leases.time += kTtl;
  EXPECT_NE(leases.join("key", "r5").token, 0u);
  EXPECT_NE(leases.join("key", "r6").token, 0u);
  leases.time += kTtl;
  leases.acquire("key", "writer");
  EXPECT_FALSE(leases.putOff("key", 10));
}

TEST(LeaseTable, PutsOffReadersOfAFreeKey) {
  Leases leases;
  leases.join("key", "r1");
  leases.putOff("key", 100);
  leases.time = 10;
  EXPECT_TRUE(leases.leave("key", "r1"));
  EXPECT_EQ(leases.join("key", "r1").retryAfter, 90);
  EXPECT_FALSE(leases.inspect("key").has_value());
  EXPECT_FALSE(leases.putOff("key", kAnHour));
  EXPECT_FALSE(leases.leave("key", "r1"));
  leases.time = 99;
  EXPECT_EQ(leases.join("key", "r2").retryAfter, 1);
  EXPECT_NE(leases.acquire("key", "writer"), 0u);
  leases.release("key", "writer");
  EXPECT_NE(leases.join("key", "r2").token, 0u) << "the writer had its turn";
  leases.putOff("key", 100);
  EXPECT_TRUE(leases.leave("key", "r2"));
  leases.time = 199;
  EXPECT_NE(leases.join("key", "r3").token, 0u) << "its time has passed";
  EXPECT_NE(leases.join("key", "r4").token, 0u);
  leases.putOff("key", 10);
  EXPECT_TRUE(leases.leave("key", "r3"));
  EXPECT_TRUE(leases.leave("key", "r4"));
  EXPECT_EQ(leases.table.size(), 1u);
  leases.time += 10;
  leases.acquire("other", "a");  // sweeps the entry
  EXPECT_EQ(leases.table.size(), 1u);
}

TEST(LeaseTable, StaysAbandonedThroughGroups) {
  Leases leases;
  const auto form = [&] {
    const LeaseTable::SharedGrant grant = leases.join("key", "r1");
    EXPECT_TRUE(grant.abandoned);
    return grant;
  };
  leases.acquire("key", "gone");
  leases.time += kTtl;
  form();
  EXPECT_TRUE(leases.leave("key", "r1"));
  form();
  leases.time += kTtl;
  form();
  leases.time += kTtl;
  leases.acquire("other", "a");  // sweeps the entry
  const LeaseTable::SharedGrant revoked = form();
  EXPECT_TRUE(leases.table.takeBack(leases.claim("key", revoked.group), revoked.token, false, nullptr));
  form();
  leases.putOff("key", 10);
  EXPECT_TRUE(leases.leave("key", "r1"));
  leases.time += 10;
  leases.acquire("other", "a");  // sweeps the entry
  form();
  leases.putOff("key", 10);
  EXPECT_TRUE(leases.leave("key", "r1"));
  EXPECT_TRUE(leases.table.tryAcquire(leases.claim("key", "b"), kTtl, "", leases.somebody.watches).abandoned);
  leases.release("key", "b");
  EXPECT_FALSE(leases.join("key", "r1").abandoned);
}

TEST(LeaseTable, ReportsNoAbandonmentByAGroup) {
  Leases leases;
  const auto isAbandoned = [&](std::string_view owner) {
    const LeaseTable::Grant granted =
        leases.table.tryAcquire(leases.claim("key", owner), kTtl, "", leases.somebody.watches);
    EXPECT_NE(granted.token, 0u);
    leases.release("key", owner);
    return granted.abandoned;
  };
  leases.join("key", "r1");
  leases.time += kTtl;
  EXPECT_FALSE(isAbandoned("a")) << "the entry has expired";
  leases.join("key", "r1");
  leases.time += kTtl;
  leases.acquire("other", "a");  // sweeps the entry
  EXPECT_FALSE(isAbandoned("b"));
  const LeaseTable::SharedGrant revoked = leases.join("key", "r1");
  EXPECT_TRUE(leases.table.takeBack(leases.claim("key", revoked.group), revoked.token, true, nullptr));
  EXPECT_FALSE(leases.leave("key", "r1"));
  EXPECT_FALSE(isAbandoned("c"));
}

TEST(LeaseTable, ReadersWaitForTheTurnOfAnotherThread) {
  Leases leases;
  Watcher first;
  Watcher second;
  leases.acquire("key", "a");
  first.watches.add(leases.table, KeyView("key"));
  second.watches.add(leases.table, KeyView("key"));
  leases.release("key", "a");
  const auto join = [&](std::string_view reader, const Watcher& watcher) {
    return leases.table.join(leases.claim("key", reader), kTtl, watcher.watches);
  };
  const LeaseTable::SharedGrant early = join("r2", second);
  EXPECT_EQ(early.token, 0u);
  EXPECT_GT(early.retryAfter, 0);
  EXPECT_NE(join("r1", first).token, 0u);
  EXPECT_NE(join("r2", second).token, 0u) << "the readers hold the key together";
}

TEST(LeaseTable, GivesNoThreadTheTurnForAKeyThatRefusesReaders) {
  Leases leases;
  Watcher readers;
  Watcher writers;
  leases.join("key", "r1");
  leases.putOff("key", 100);
  readers.watches.add(leases.table, KeyView("key"));
  writers.watches.add(leases.table, KeyView("key"));
  EXPECT_TRUE(leases.leave("key", "r1"));
  for (Watcher* const watcher : {&readers, &writers}) EXPECT_EQ(watcher->take().size(), 1u);
  EXPECT_EQ(leases.table.join(leases.claim("key", "r2"), kTtl, readers.watches).retryAfter, 100);
  EXPECT_NE(leases.turn("key", "writer", writers).token, 0u);
  leases.release("key", "writer");
  EXPECT_EQ(leases.turn("key", "writer", writers).token, 0u) << "the other thread has waited longer";
  EXPECT_NE(leases.table.join(leases.claim("key", "r2"), kTtl, readers.watches).token, 0u);
}

TEST(LeaseTable, ForgetsTheReadersOfAGroupThatIsKeptOrReplaced) {
  Leases leases;
  const LeaseTable::SharedGrant grant = leases.join("key", "r1");
  leases.join("key", "r2");
  EXPECT_TRUE(leases.keep("key", grant.group, grant.token, kTtl));
  EXPECT_FALSE(leases.leave("key", "r2"));
  EXPECT_EQ(leases.join("key", "r3").token, 0u);
  leases.time += kTtl;
  const std::string group = leases.join("key", "r4").group;
  leases.join("key", "r5");
  leases.acquire("key", group);
  EXPECT_FALSE(leases.leave("key", "r5"));
}

TEST(LeaseTable, ReportsWhetherAReleaseFreedTheKey) {
  Leases leases;
  leases.join("key", "r1");
  leases.join("key", "r2");
  const auto leave = [&](std::string_view reader) {
    return leases.table.leave(leases.claim("key", reader), nullptr);
  };
  EXPECT_EQ(leave("r1"), LeaseTable::Leave::kOthersRemain);
  EXPECT_EQ(leave("r1"), LeaseTable::Leave::kNotIn);
  EXPECT_EQ(leave("r2"), LeaseTable::Leave::kFreed);
}

TEST(LeaseTable, ListsTheFirstKeysThatAreHeld) {
  Leases leases;
  const auto list = [&](std::string_view prefix, std::size_t most) {
    std::string keys;
    const auto isBefore = [](std::string_view a, std::string_view b) { return a < b; };
    for (const LeaseTable::Listed& listed : leases.table.list(prefix, most, isBefore, leases.time))
      keys += listed.key + ":" + listed.info.owner + std::to_string(listed.info.remaining) + " ";
    return keys;
  };
  EXPECT_EQ(list("", 10), "");
  leases.acquire("expires", "a");
  leases.acquire("released", "a");
  leases.release("released", "a");
  leases.time = kTtl;
  for (const char* const key : {"c", "a", "bb", "b"}) leases.acquire(key, "a");
  EXPECT_EQ(list("", 10), "a:a1000 b:a1000 bb:a1000 c:a1000 ");
  EXPECT_EQ(list("", 2), "a:a1000 b:a1000 ");
  EXPECT_EQ(list("b", 10), "b:a1000 bb:a1000 ");
  EXPECT_EQ(list("b", 1), "b:a1000 ");
  EXPECT_EQ(list("none", 10), "");
  EXPECT_EQ(list("", 0), "");
}

TEST(LeaseTable, KeepsNothingOfWhatWasReleased) {
  Leases leases;
  for (int i = 0; i < 10'000; ++i) {
    const std::string key = "key " + std::to_string(i);
    leases.acquire(key, "a");
    EXPECT_TRUE(leases.release(key, "a"));
  }
  EXPECT_EQ(leases.table.size(), 0u);
}

TEST(LeaseTable, SweepsWhatHasExpiredAsFastAsNewLeasesAreTaken) {
  Leases leases;
  std::size_t most = 0;
  for (int i = 0; i < 200'000; ++i) {
    leases.time = i;
    ASSERT_NE(leases.acquire("key " + std::to_string(i), "a", 100), 0u);
    most = std::max(most, leases.table.size());
  }
  // At any time, 100 leases are held.
  EXPECT_LT(most, 200u);
}

TEST(LeaseTable, SweepsExpiredKeysWhileAnotherKeyIsRenewed) {
  Leases leases;
  for (int i = 0; i < 10'000; ++i) leases.acquire("key " + std::to_string(i), "a", 100);
  leases.time = 100;
  leases.acquire("hot", "a");
  for (int i = 0; i < 16 * 10'000; ++i) leases.renew("hot", "a");
  EXPECT_EQ(leases.table.size(), 1u);
}

TEST(LeaseTable, SweepsThemWhileOneKeyIsTakenAndReleasedOverAndOver) {
  Leases leases;
  Watcher taker;
  for (int i = 0; i < 10'000; ++i) leases.acquire("key " + std::to_string(i), "a", 100);
  leases.time = 100;
  for (int i = 0; i < 16 * 10'000; ++i) {
    ASSERT_NE(leases.turn("hot", "a", taker).token, 0u);
    ASSERT_TRUE(leases.release("hot", "a"));
  }
  EXPECT_EQ(leases.table.size(), 0u);
}

TEST(LeaseTable, SweepsNothingThatWasRenewed) {
  Leases leases;
  for (int i = 0; i < 1000; ++i) leases.acquire("key " + std::to_string(i), "a", 100);
  leases.time = 99;
  for (int i = 0; i < 1000; i += 2) EXPECT_TRUE(leases.renew("key " + std::to_string(i), "a", 1000));
  leases.time = 500;
  EXPECT_FALSE(leases.table.sweepAll(leases.time));
  EXPECT_EQ(leases.table.size(), 500u);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(leases.inspect("key " + std::to_string(i)).has_value(), i % 2 == 0) << i;
  leases.time = 2000;
  EXPECT_TRUE(leases.table.sweepAll(leases.time));
}

TEST(LeaseTable, TellsEveryThreadThatWatchesAKeyOfItsRelease) {
  Leases leases;
  Watcher one;
  Watcher other;
  leases.acquire("key", "a");
  const std::uint32_t id = one.watches.add(leases.table, KeyView("key"));
  const std::uint32_t unrelated = one.watches.add(leases.table, KeyView("unrelated"));
  other.watches.add(leases.table, KeyView("key"));
  EXPECT_NE(id, unrelated);
  leases.release("key", "a");
  EXPECT_EQ(one.environment.wakes(), 1);
  EXPECT_EQ(other.environment.wakes(), 1);
  EXPECT_EQ(one.take(), std::vector{id});
  EXPECT_TRUE(one.take().empty());
  EXPECT_EQ(other.take().size(), 1u);
}

TEST(LeaseTable, DoesNotWakeTheThreadThatReleases) {
  Leases leases;
  Watcher self;
  leases.acquire("key", "a");
  self.watches.add(leases.table, KeyView("key"));
  leases.release("key", "a", &self.watches);
  EXPECT_EQ(self.environment.wakes(), 0);
  EXPECT_TRUE(self.watches.hasReady());
  EXPECT_EQ(self.take().size(), 1u);
}

TEST(LeaseTable, TellsNobodyOfAWatchThatIsRemoved) {
  Leases leases;
  Watcher watcher;
  leases.acquire("key", "a");
  const std::uint32_t id = watcher.watches.add(leases.table, KeyView("key"));
  leases.release("key", "a");
  EXPECT_TRUE(watcher.watches.remove(id));
  EXPECT_FALSE(watcher.watches.remove(id));
  EXPECT_FALSE(watcher.watches.hasReady());
  EXPECT_TRUE(watcher.take().empty());
}

TEST(LeaseTable, LetsTheThreadThatWaitsLongestGoFirstAfterARelease) {
  Leases leases;
  Watcher first;
  Watcher second;
  leases.acquire("key", "a");
  EXPECT_EQ(leases.turn("key", "1", first).retryAfter, kTtl);
  first.watches.add(leases.table, KeyView("key"));
  second.watches.add(leases.table, KeyView("key"));
  leases.release("key", "a");

  const LeaseTable::Grant early = leases.turn("key", "2", second);
  EXPECT_EQ(early.token, 0u);
  EXPECT_GT(early.retryAfter, 0);
  EXPECT_LE(early.retryAfter, LeaseTable::kTurn);
  EXPECT_NE(leases.turn("key", "1", first).token, 0u);
  // A thread that has had the key goes to the end of the queue.
  leases.release("key", "1");
  EXPECT_EQ(leases.turn("key", "1 again", first).token, 0u);
  EXPECT_NE(leases.turn("key", "2", second).token, 0u);
}

TEST(LeaseTable, DoesNotWaitForAThreadThatLetsItsTurnPass) {
  Leases leases;
  Watcher blocked;
  Watcher second;
  leases.acquire("key", "a");
  blocked.watches.add(leases.table, KeyView("key"));
  second.watches.add(leases.table, KeyView("key"));
  leases.release("key", "a");
  EXPECT_TRUE(eventually([&] { return leases.turn("key", "2", second).token != 0; }));
  // The blocked thread has let its turn pass, so it is now last in the queue.
  leases.release("key", "2");
  EXPECT_NE(leases.turn("key", "2", second).token, 0u);
}

TEST(LeaseTable, NotifiesTheThreadsThatWaitThatALeaseWasShortened) {
  Leases leases;
  Watcher watcher;
  Watcher self;
  const std::uint64_t token = leases.acquire("key", "a");
  watcher.watches.add(leases.table, KeyView("key"));
  EXPECT_TRUE(leases.renew("key", "a", 2 * kTtl));
  EXPECT_FALSE(watcher.watches.hasReady());
  EXPECT_TRUE(leases.keep("key", "a", token, kTtl, &self.watches));
  EXPECT_TRUE(watcher.watches.hasReady());
  EXPECT_EQ(watcher.environment.wakes(), 1);
  EXPECT_EQ(self.environment.wakes(), 0);
  EXPECT_EQ(watcher.take().size(), 1u);
  EXPECT_TRUE(leases.keep("key", "a", token, kTtl, &self.watches));
  EXPECT_FALSE(watcher.watches.hasReady()) << "a repeated call changes nothing";
}

}  // namespace stripelock::test
