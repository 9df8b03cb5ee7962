#include "core/base/free_spans.h"

#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/table/layout.h"
#include "core/table/registry.h"
#include "test/support.h"

namespace stripelock::test {

namespace {

// A different arena for each test, because all tests share the registry of the process.
std::uint64_t newArena() {
  static std::uint64_t last = 0;
  Registry::instance().freeSpans().join(++last);
  return last;
}

constexpr std::uint32_t kStripes = 4;
constexpr auto kBytes = static_cast<std::uint32_t>(byteLengthFor(kStripes));

}  // namespace

TEST(FreeSpans, AreGivenOutOnceAndOnlyIfTheyAreLargeEnough) {
  FreeSpans spans;
  spans.join(1);
  EXPECT_EQ(spans.take(1, 64), std::nullopt);
  spans.add({.arena = 1, .offset = 640, .bytes = 128});
  EXPECT_EQ(spans.take(2, 64), std::nullopt);
  EXPECT_EQ(spans.take(1, 192), std::nullopt);
  EXPECT_EQ(spans.take(1, 64), 640u);
  EXPECT_EQ(spans.take(1, 128), std::nullopt);
  EXPECT_EQ(spans.take(1, 64), 704u);
  EXPECT_EQ(spans.take(1, 64), std::nullopt);
}

TEST(FreeSpans, AreJoinedWithTheirNeighbours) {
  // Adds the parts in each order, so that a part is added before, behind and between others.
  for (const std::vector<std::uint32_t>& order : std::vector<std::vector<std::uint32_t>>{
           {0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}}) {
    FreeSpans spans;
    spans.join(1);
    for (const std::uint32_t i : order) spans.add({.arena = 1, .offset = 64 + i * 64, .bytes = 64});
    EXPECT_EQ(spans.take(1, 192), 64u);
    EXPECT_EQ(spans.take(1, 64), std::nullopt);
  }
}

TEST(FreeSpans, NeverOverlapAndNeverGetLost) {
  std::mt19937_64 random = seeded("free spans");
  constexpr std::uint32_t kUnit = 64;
  constexpr std::uint32_t kUnits = 500;
  FreeSpans spans;
  spans.join(7);
  spans.add({.arena = 7, .offset = 0, .bytes = kUnits * kUnit});
  std::vector<int> used(kUnits, 0);
  std::vector<Span> taken;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0) {
      const auto units = static_cast<std::uint32_t>(1 + random() % 20);
      const std::optional<std::uint32_t> offset = spans.take(7, units * kUnit);
      if (!offset) continue;
      for (std::uint32_t unit = *offset / kUnit; unit < *offset / kUnit + units; ++unit)
        ASSERT_EQ(used.at(unit)++, 0);
      taken.push_back({.arena = 7, .offset = *offset, .bytes = units * kUnit});
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      const Span& span = taken.back();
      for (std::uint32_t unit = 0; unit < span.bytes / kUnit; ++unit) --used.at(span.offset / kUnit + unit);
      spans.add(span);
      taken.pop_back();
    }
  }
  for (const Span& span : taken) spans.add(span);
  EXPECT_EQ(spans.take(7, kUnits * kUnit), 0u);
}

TEST(FreeSpans, AreForgottenWithTheLastThreadThatAllocatesInTheirArena) {
  Registry& registry = Registry::instance();
  const Span span{.arena = 1'000'000, .offset = 64, .bytes = kBytes};
  Environment first;
  {
    Environment second;
    for (Environment* const each : {&first, &second, &second})
      EXPECT_EQ(registry.takeSpan(each->participant(), span.arena, kBytes), std::nullopt);
    registry.freeSpans().add(span);
  }
  EXPECT_EQ(registry.takeSpan(first.participant(), span.arena, kBytes), span.offset);
  registry.freeSpans().add(span);
  first.end();
  // No thread allocates in this arena, so the span is forgotten.
  registry.freeSpans().add(span);
  Environment next;
  EXPECT_EQ(registry.takeSpan(next.participant(), span.arena, kBytes), std::nullopt);
}

TEST(FreeSpans, GetTheMemoryOfATableWhenItsOnlyThreadClosesIt) {
  FreeSpans& spans = Registry::instance().freeSpans();
  const std::uint64_t arena = newArena();
  SharedMemory memory(kStripes);
  Environment environment;
  Participant& participant = environment.participant();
  Membership* const membership = Registry::instance().open(participant, memory.data(), kStripes);
  Registry::instance().own(*membership, {.arena = arena, .offset = 64, .bytes = kBytes});
  Registry::instance().open(participant, memory.data(), kStripes);
  Registry::instance().close(*membership);
  EXPECT_EQ(spans.take(arena, kBytes), std::nullopt);
  Registry::instance().close(*membership);
  EXPECT_EQ(spans.take(arena, kBytes), 64u);
  EXPECT_EQ(spans.take(arena, kBytes), std::nullopt);
}

TEST(FreeSpans, GetTheMemoryOfATableWhenItsOnlyThreadEnds) {
  const std::uint64_t arena = newArena();
  SharedMemory memory(kStripes);
  {
    Environment environment;
    Membership* const membership =
        Registry::instance().open(environment.participant(), memory.data(), kStripes);
    Registry::instance().own(*membership, {.arena = arena, .offset = 64, .bytes = kBytes});
  }
  EXPECT_EQ(Registry::instance().freeSpans().take(arena, kBytes), 64u);
}

TEST(FreeSpans, DoNotGetTheMemoryOfATableThatWasShared) {
  const std::uint64_t arena = newArena();
  SharedMemory memory(kStripes);
  Environment environment;
  Membership* const membership =
      Registry::instance().open(environment.participant(), memory.data(), kStripes);
  Registry::instance().own(*membership, {.arena = arena, .offset = 64, .bytes = kBytes});
  Registry::instance().share(*membership);
  Registry::instance().close(*membership);
  EXPECT_EQ(Registry::instance().freeSpans().take(arena, kBytes), std::nullopt);
}

TEST(FreeSpans, DoNotGetTheMemoryOfATableThatASecondThreadHasOpened) {
  const std::uint64_t arena = newArena();
  SharedMemory memory(kStripes);
  Environment first;
  Environment second;
  Membership* const one = Registry::instance().open(first.participant(), memory.data(), kStripes);
  Registry::instance().own(*one, {.arena = arena, .offset = 64, .bytes = kBytes});
  Membership* const other = Registry::instance().open(second.participant(), memory.data(), kStripes);
  Registry::instance().close(*one);
  EXPECT_EQ(Registry::instance().freeSpans().take(arena, kBytes), std::nullopt);
  Registry::instance().close(*other);
  EXPECT_EQ(Registry::instance().freeSpans().take(arena, kBytes), std::nullopt);
}

}  // namespace stripelock::test
