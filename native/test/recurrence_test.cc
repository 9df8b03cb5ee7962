#include "core/recurrence.h"

#include <random>

#include <gtest/gtest.h>

#include "core/hash.h"

namespace stripelock::test {

namespace {

// What a thread looks up: keys by their numbers, none of which it still knows.
struct Reader {
  void read(std::uint64_t key, bool again = false) {
    recurrence.note(hashBytes(&key, sizeof key), again);
    if (recurrence.isUsual()) ++usual;
    ++total;
  }
  void start() { usual = total = 0; }
  double share() const { return static_cast<double>(usual) / static_cast<double>(total); }

  Recurrence recurrence;
  std::mt19937_64 random{1};
  std::uint64_t next = 1'000'000'000;
  std::uint64_t usual = 0;
  std::uint64_t total = 0;
};

}  // namespace

TEST(Recurrence, OfKeysThatNeverComeAgainIsNotUsual) {
  Reader reader;
  for (int i = 0; i < 1'000'000; ++i) reader.read(reader.next++);
  EXPECT_EQ(reader.usual, 0u);
}

TEST(Recurrence, IsUsualForSetsOfEverySizeThatAreRemembered) {
  for (const std::uint64_t keys : {100u, 1000u, 10'000u, 20'000u}) {
    Reader reader;
    // After others, which do not count for long.
    for (int i = 0; i < 100'000; ++i) reader.read(reader.next++);
    for (std::uint64_t i = 0; i < 4 * keys; ++i) reader.read(reader.random() % keys);
    reader.start();
    for (int i = 0; i < 100'000; ++i) reader.read(reader.random() % keys);
    EXPECT_GT(reader.share(), 0.95) << keys;
  }
}

TEST(Recurrence, IsUsualForAFewKeysThatTheCallerStillKnows) {
  for (std::uint64_t key = 0; key < 20; ++key) {
    Reader reader;
    for (int i = 0; i < 10'000; ++i) reader.read(key, i > 0);
    EXPECT_TRUE(reader.recurrence.isUsual());
  }
}

TEST(Recurrence, IsUsualIfMostKeysComeAgainAndNotIfMostDoNot) {
  for (const auto& [percent, usual] : {std::pair{25u, false}, {75u, true}}) {
    Reader reader;
    for (int i = 0; i < 200'000; ++i) {
      if (i == 50'000) reader.start();
      const bool again = reader.random() % 100 < percent;
      reader.read(again ? reader.random() % 1000 : reader.next++);
    }
    EXPECT_NEAR(reader.share(), usual ? 1 : 0, 0.02) << percent;
  }
}

TEST(Recurrence, IsForgottenWhenTheKeysAreOthers) {
  Reader reader;
  for (int i = 0; i < 100'000; ++i) reader.read(reader.random() % 1000);
  EXPECT_TRUE(reader.recurrence.isUsual());
  for (int i = 0; i < 1024; ++i) reader.read(reader.next++);
  EXPECT_FALSE(reader.recurrence.isUsual());
}

}  // namespace stripelock::test
