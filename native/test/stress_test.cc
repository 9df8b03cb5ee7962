// Random actions of all kinds at once, with wider race windows. Each run prints its seed:
//
//   STRIPELOCK_SEED=<seed> STRIPELOCK_SECONDS=<seconds> core_test --gtest_filter='Stress.*'
//
// repeats the threads' decisions, but not the machine's interleaving. With STRIPELOCK_SLICES=none, a lost wake-up
// becomes a hang, except in the unruly tests.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

namespace {

// The data is not atomic. It is written only under exclusive holds and read under shared ones. So a broken lock
// causes a lost update, a changed value, or a data race that ThreadSanitizer reports.

struct GuardedData {
  std::uint64_t updates = 0;
  std::uint64_t copy = 0;
  std::int32_t writer = 0;
  // A writer's thread ended while it held the stripe, and no later writer has repaired the data.
  bool dirty = false;
};

// One lock and its data.
struct World {
  explicit World(std::uint32_t stripes) : memory(stripes), data(stripes) {}

  SharedMemory memory;
  std::vector<GuardedData> data;
  // The expected counts in the header at the end.
  std::atomic<std::int64_t> updates{0};
  std::atomic<std::int64_t> timeouts{0};
  std::atomic<std::int64_t> aborts{0};
  std::atomic<std::int64_t> deadlocks{0};
  std::atomic<std::int64_t> abandoned{0};
};

// A thread's hold, checked when it begins and when it ends.
class Held {
 public:
  Held(World& world, Stripes stripes, Mode mode, bool toldAbandoned, std::int32_t threadId);

  const Stripes& stripes() const { return stripes_; }
  Mode mode() const { return mode_; }
  void beforeRelease();
  void beforeDeath();

 private:
  void enter(GuardedData& data);
  void check(const GuardedData& data, std::uint64_t expected) const;

  World* world_;
  Stripes stripes_;
  Mode mode_;
  std::int32_t threadId_;
  // The value seen for each stripe, while held shared.
  std::vector<std::uint64_t> seen_;
};

Held::Held(World& world, Stripes stripes, Mode mode, bool toldAbandoned, std::int32_t threadId)
    : world_(&world), stripes_(std::move(stripes)), mode_(mode), threadId_(threadId) {
  bool dirty = false;
  for (const std::uint32_t stripe : stripes_) {
    dirty |= world_->data[stripe].dirty;
    enter(world_->data[stripe]);
  }
  EXPECT_EQ(toldAbandoned, dirty) << "thread " << threadId_;
}

void Held::enter(GuardedData& data) {
  if (mode_ == Mode::kShared) {
    seen_.push_back(data.updates);
    check(data, data.updates);
    return;
  }
  data.dirty = false;
  EXPECT_EQ(data.writer, 0) << "thread " << threadId_ << " holds what another one holds";
  check(data, data.updates);
  data.writer = threadId_;
  ++data.updates;
}

void Held::check(const GuardedData& data, std::uint64_t expected) const {
  EXPECT_EQ(data.updates, expected) << "written while thread " << threadId_ << " held it";
  EXPECT_EQ(data.copy, expected) << "half-written while thread " << threadId_ << " held it";
}

void Held::beforeRelease() {
  for (std::size_t i = 0; i < stripes_.size(); ++i) {
    GuardedData& data = world_->data[stripes_[i]];
    if (mode_ == Mode::kShared) {
      check(data, seen_[i]);
      continue;
    }
    EXPECT_EQ(data.writer, threadId_) << "taken from thread " << threadId_;
    data.copy = data.updates;
    data.writer = 0;
    world_->updates.fetch_add(1);
  }
}

void Held::beforeDeath() {
  beforeRelease();
  for (const std::uint32_t stripe : stripes_) {
    if (mode_ == Mode::kExclusive) world_->data[stripe].dirty = true;
  }
}

enum class Manners {
  // Waits only while holding nothing: no deadlock is possible, so none may be reported.
  kOrderly,
  // Waits while it holds stripes, but only for stripes after all of these. So no deadlock is possible either.
  kNested,
  // Waits while it holds stripes, in any order. Deadlocks are possible.
  kUnruly,
};

// A thread's current action, for the watchdog.
struct Activity {
  std::atomic<const char*> what{"starting"};
  std::atomic<Nanoseconds> since{now()};

  void begin(const char* action) {
    what.store(action);
    since.store(now());
  }
};

// A thread from its start to its death: its environment, its locks, its holds and waits.
class Life {
 public:
  Life(std::vector<std::unique_ptr<World>>& worlds, Manners manners, Random& random, Activity& activity);

  // Performs one random action. Returns false if the thread must die.
  bool step();
  void die();
  void retire();

 private:
  struct Use {
    Use(Environment& environment, World& world) : world(world), client(environment, world.memory) {}
    World& world;
    Client client;
    std::vector<Held> held;
  };
  struct Pending {
    std::uint32_t id;
    Use* use;
    Stripes stripes;
    Mode mode;
  };

  Use& anyUse() { return *uses_[below(random_, static_cast<std::uint32_t>(uses_.size()))]; }
  Stripes anyStripes(const World& world);
  bool isAfterAllHeld(const Use& wanted, std::uint32_t stripe) const;
  Ask anyAsk(double longest);
  void hold(Use& use, Stripes stripes, Mode mode, bool abandoned);
  void takeFast();
  bool takeSync();
  void start();
  void cancelAny();
  void releaseAny(Use& use);
  void releaseAll();
  void settle();
  void awaitWakeFor(double milliseconds);
  void awaitOne();
  void linger();
  void reopen();
  void noteDeaths(Use& use);

  const Manners manners_;
  Random& random_;
  Activity& activity_;
  Environment environment_;
  std::vector<std::unique_ptr<Use>> uses_;
  std::vector<Pending> pending_;
};

Life::Life(std::vector<std::unique_ptr<World>>& worlds, Manners manners, Random& random, Activity& activity)
    : manners_(manners), random_(random), activity_(activity) {
  for (const auto& world : worlds) uses_.push_back(std::make_unique<Use>(environment_, *world));
}

Stripes Life::anyStripes(const World& world) {
  Stripes stripes{below(random_, world.memory.stripes())};
  while (stripes.size() < 8 && oneIn(random_, 2)) stripes.push_back(below(random_, world.memory.stripes()));
  std::sort(stripes.begin(), stripes.end());
  stripes.erase(std::unique(stripes.begin(), stripes.end()), stripes.end());
  return stripes;
}

Ask Life::anyAsk(double longest) {
  Ask ask{.mode = sharedIf(oneIn(random_, 3)), .timeout = longest, .fast = oneIn(random_, 2)};
  switch (below(random_, 8)) {
    case 0:
      ask.timeout = 0;
      break;
    case 1:
    case 2:
      ask.timeout = 0.001 * below(random_, 1000);
      break;
    case 3:
      ask.timeout = below(random_, 20);
      break;
    default:
      break;
  }
  return ask;
}

void Life::hold(Use& use, Stripes stripes, Mode mode, bool abandoned) {
  use.held.emplace_back(use.world, std::move(stripes), mode, abandoned, environment_.threadId());
}

void Life::takeFast() {
  Use& use = anyUse();
  const std::uint32_t stripe = below(random_, use.world.memory.stripes());
  const Mode mode = sharedIf(oneIn(random_, 3));
  if (use.client.take(stripe, mode)) hold(use, {stripe}, mode, false);
}

// Whether the stripe comes after all held stripes in the order in which nested acquisitions take stripes.
bool Life::isAfterAllHeld(const Use& wanted, std::uint32_t stripe) const {
  bool later = false;
  for (const auto& use : uses_) {
    for (const Held& held : use->held) {
      if (later || (use.get() == &wanted && held.stripes().back() >= stripe)) return false;
    }
    later = later || use.get() == &wanted;
  }
  return true;
}

// Returns false if it was interrupted, as by terminate().
bool Life::takeSync() {
  if (manners_ == Manners::kOrderly) releaseAll();
  Use& use = anyUse();
  const Stripes stripes = anyStripes(use.world);
  if (manners_ == Manners::kNested && !isAfterAllHeld(use, stripes.front())) releaseAll();
  const Ask ask = anyAsk(kForever);
  const auto requested = [](void* random) { return oneIn(*static_cast<Random*>(random), 20); };
  const SyncOutcome outcome =
      use.client.acquireSync(stripes, ask, {.requested = requested, .data = &random_});
  switch (outcome.status) {
    case Status::kGranted:
      hold(use, stripes, ask.mode, outcome.abandoned);
      break;
    case Status::kTimedOut:
      use.world.timeouts.fetch_add(1);
      break;
    case Status::kDeadlock:
      use.world.deadlocks.fetch_add(1);
      EXPECT_EQ(manners_, Manners::kUnruly) << "a false alarm";
      EXPECT_EQ(outcome.cycle.front().threadId, environment_.threadId());
      break;
    case Status::kInterrupted:
    // These tables have no gate.
    case Status::kFailed:
      return false;
  }
  return true;
}

void Life::start() {
  Use& use = anyUse();
  Stripes stripes = anyStripes(use.world);
  // The acquisition always has a timeout. This thread may later hold the very stripe that blocks this acquisition, and
  // no search would find that cycle.
  const Ask ask = anyAsk(50);
  const AsyncWaits::Started started = use.client.acquire(stripes, ask);
  if (started.status == AsyncStart::kGranted) {
    hold(use, stripes, ask.mode, started.abandoned);
  } else if (started.status == AsyncStart::kPending) {
    pending_.push_back({started.id, &use, std::move(stripes), ask.mode});
  } else {
    use.world.timeouts.fetch_add(1);
  }
}

void Life::cancelAny() {
  if (pending_.empty()) return;
  const std::size_t index = below(random_, static_cast<std::uint32_t>(pending_.size()));
  EXPECT_TRUE(environment_.async().cancel(pending_[index].id));
  pending_[index].use->world.aborts.fetch_add(1);
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Life::releaseAny(Use& use) {
  if (use.held.empty()) return;
  const std::size_t index = below(random_, static_cast<std::uint32_t>(use.held.size()));
  Held& held = use.held[index];
  held.beforeRelease();
  EXPECT_TRUE(use.client.release(held.stripes(), held.mode()));
  use.held.erase(use.held.begin() + static_cast<std::ptrdiff_t>(index));
  // A release does not wake its own thread's event loop for grants to that thread.
  if (environment_.async().hasReady()) settle();
}

// A release may grant a pending acquisition of this thread, in either lock. So this repeats until nothing is held.
void Life::releaseAll() {
  const auto holding = [](const std::unique_ptr<Use>& use) { return !use->held.empty(); };
  for (;;) {
    const auto use = std::find_if(uses_.begin(), uses_.end(), holding);
    if (use == uses_.end()) return;
    releaseAny(**use);
  }
}

// Runs the event loop's work after a wake or a passed deadline.
void Life::settle() {
  const auto byId = [this](std::uint32_t id) {
    return std::find_if(pending_.begin(), pending_.end(), [id](const Pending& one) { return one.id == id; });
  };
  for (const AsyncWaits::Granted& grant : takeGrants(environment_)) {
    const auto one = byId(grant.id);
    ASSERT_NE(one, pending_.end()) << "granted what was settled before";
    hold(*one->use, one->stripes, one->mode, grant.abandoned);
    pending_.erase(one);
  }
  if (oneIn(random_, 4)) environment_.async().revokeIdleGrants();
  for (const AsyncWaits::Expired& expired : takeExpired(environment_)) {
    const auto one = byId(expired.id);
    ASSERT_NE(one, pending_.end()) << "expired what was settled before";
    one->use->world.timeouts.fetch_add(1);
    pending_.erase(one);
  }
}

// Sleeps like an idle event loop, until a wake or a deadline.
void Life::awaitOne() {
  if (manners_ == Manners::kOrderly) releaseAll();
  const std::size_t before = pending_.size();
  while (before != 0 && pending_.size() == before) {
    const Nanoseconds left = environment_.async().nextDeadline().point() - now();
    awaitWakeFor(std::max(0.0, milliseconds(left)));
    settle();
  }
}

// A grant by another thread must wake the event loop, even if late.
void Life::awaitWakeFor(double milliseconds) {
  if (environment_.awaitWake(milliseconds) || !environment_.async().hasReady()) return;
  EXPECT_TRUE(environment_.awaitWake(kStuck)) << "granted without a wake";
}

void Life::linger() {
  if (oneIn(random_, 4)) {
    std::this_thread::sleep_for(std::chrono::microseconds(below(random_, 300)));
  } else {
    std::this_thread::yield();
  }
}

void Life::noteDeaths(Use& use) {
  std::vector<std::uint32_t> stripes;
  for (Held& held : use.held) {
    held.beforeDeath();
    if (held.mode() == Mode::kShared) continue;
    stripes.insert(stripes.end(), held.stripes().begin(), held.stripes().end());
  }
  std::sort(stripes.begin(), stripes.end());
  const auto distinct = std::unique(stripes.begin(), stripes.end()) - stripes.begin();
  use.world.abandoned.fetch_add(distinct);
  use.held.clear();
}

// Closes one lock while the thread lives. Its holds there still count as abandoned.
void Life::reopen() {
  std::unique_ptr<Use>& use = uses_[below(random_, static_cast<std::uint32_t>(uses_.size()))];
  noteDeaths(*use);
  std::erase_if(pending_, [&](const Pending& one) { return one.use == use.get(); });
  use->client.close();
  World& world = use->world;
  use.reset();
  use = std::make_unique<Use>(environment_, world);
}

bool Life::step() {
  const std::uint32_t draw = below(random_, 1000);
  if (draw < 250) {
    activity_.begin("fast path");
    takeFast();
  } else if (draw < 450) {
    activity_.begin("acquireSync");
    if (!takeSync()) return false;
  } else if (draw < 600) {
    activity_.begin("acquire");
    start();
  } else if (draw < 650) {
    activity_.begin("cancel");
    cancelAny();
  } else if (draw < 700) {
    activity_.begin("await");
    awaitOne();
  } else if (draw < 760) {
    activity_.begin("linger");
    linger();
  } else if (draw < 762) {
    activity_.begin("reopen");
    reopen();
  } else if (draw < 764) {
    return false;
  } else {
    activity_.begin("release");
    releaseAny(anyUse());
  }
  // The event loop runs only sometimes, so that grants stay uncollected for a while.
  if (oneIn(random_, 4)) {
    activity_.begin("settle");
    awaitWakeFor(0);
    settle();
  }
  // Bounds the number of holds. Otherwise most stripes would soon be held for a long time.
  for (const auto& use : uses_) {
    while (use->held.size() > 2) releaseAny(*use);
  }
  return true;
}

void Life::die() {
  activity_.begin("die");
  for (const auto& use : uses_) noteDeaths(*use);
  environment_.end();
}

void Life::retire() {
  activity_.begin("retire");
  while (!pending_.empty()) cancelAny();
  releaseAll();
  EXPECT_FALSE(environment_.async().cancel(0)) << "something is pending that nobody waits for";
}

// The limit for each operation: sync waits that cannot end are refused, and async waits have deadlines. The limit is
// far longer than a loaded machine under ThreadSanitizer has ever needed.
constexpr double kWatchdog = 60'000;

struct Plan {
  std::uint64_t seed;
  double seconds;
  Manners manners;
  std::uint32_t threads;
  // The number of stripes of each lock. Few stripes mean much contention.
  std::vector<std::uint32_t> stripes;
};

class StressRun {
 public:
  explicit StressRun(Plan plan) : plan_(std::move(plan)) {
    for (const std::uint32_t stripes : plan_.stripes) worlds_.push_back(std::make_unique<World>(stripes));
  }

  void run() {
    std::printf("[   seed   ] STRIPELOCK_SEED=%llu\n", static_cast<unsigned long long>(plan_.seed));
    const WidenedWindows windows(plan_.seed);
    // Keeps the tables open while other threads open and close them.
    Environment keeper;
    std::vector<std::unique_ptr<Client>> clients;
    for (const auto& world : worlds_) clients.push_back(std::make_unique<Client>(keeper, world->memory));
    std::vector<Activity> activities(plan_.threads);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < plan_.threads; ++i) {
      threads.emplace_back([this, i, &activities] { live(i, activities[i]); });
    }
    watch(activities, clients);
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < worlds_.size(); ++i) checkQuiet(*worlds_[i], *clients[i]);
  }

 private:
  void live(std::uint32_t index, Activity& activity) {
    Random random(plan_.seed * 1000 + index);
    const Deadline end = Deadline::after(plan_.seconds * 1000);
    while (!end.passedAt(now())) {
      Life life(worlds_, plan_.manners, random, activity);
      bool dying = false;
      while (!dying && !end.passedAt(now()) && !::testing::Test::HasFailure()) dying = !life.step();
      if (dying) {
        life.die();
      } else {
        life.retire();
      }
      if (::testing::Test::HasFailure()) break;
    }
    activity.begin(nullptr);
  }

  // Watches all threads until they have ended.
  void watch(std::vector<Activity>& activities, std::vector<std::unique_ptr<Client>>& clients) {
    const auto active = [&] {
      return std::any_of(activities.begin(), activities.end(),
                         [](const Activity& one) { return one.what.load() != nullptr; });
    };
    while (active()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      // inspect() must work at any time.
      for (const auto& client : clients) static_cast<void>(inspect(client->table()));
      for (std::size_t i = 0; i < activities.size(); ++i) {
        const char* const what = activities[i].what.load();
        if (!what || milliseconds(now() - activities[i].since.load()) < kWatchdog) continue;
        std::fprintf(stderr, "thread %zu is stuck in: %s\n", i, what);
        for (const auto& client : clients) describe(client->table());
        stuck("a thread of the stress run");
      }
    }
  }

  // Checks that no hold and no waiter remains, and that the counts in the header are right.
  static void checkQuiet(World& world, Client& client) {
    std::int64_t updates = 0;
    for (std::uint32_t stripe = 0; stripe < world.memory.stripes(); ++stripe) {
      const GuardedData& data = world.data[stripe];
      const std::uint32_t flag = data.dirty ? kAbandoned : 0;
      EXPECT_EQ(world.memory.word(stripe).load(), flag) << "stripe " << stripe;
      EXPECT_EQ(client.table().queueOf(stripe).head, nullptr);
      EXPECT_EQ(client.table().queueOf(stripe).designated.load(), nullptr);
      EXPECT_EQ(data.copy, data.updates);
      updates += static_cast<std::int64_t>(data.updates);
    }
    EXPECT_EQ(updates, world.updates.load());
    EXPECT_GT(updates, 0);
    EXPECT_EQ(world.memory.cell(kWaitingCell), 0);
    EXPECT_EQ(world.memory.cell(kAbandonedCell), world.abandoned.load());
    std::printf(
        "[  result  ] %u stripes: %lld updates, %lld waits, %lld timeouts, %lld deadlocks, %lld abandoned\n",
        world.memory.stripes(), static_cast<long long>(updates),
        static_cast<long long>(world.memory.cell(kContendedCell)),
        static_cast<long long>(world.timeouts.load()), static_cast<long long>(world.deadlocks.load()),
        static_cast<long long>(world.abandoned.load()));
  }

  Plan plan_;
  std::vector<std::unique_ptr<World>> worlds_;
};

void stress(Manners manners, std::uint32_t threads, std::vector<std::uint32_t> stripes) {
  StressRun({.seed = numberFrom("STRIPELOCK_SEED", std::random_device{}()),
             .seconds = static_cast<double>(numberFrom("STRIPELOCK_SECONDS", 2)),
             .manners = manners,
             .threads = threads,
             .stripes = std::move(stripes)})
      .run();
}

}  // namespace

TEST(Stress, OrderlyThreadsOnOneStripe) { stress(Manners::kOrderly, 3, {1}); }

TEST(Stress, OrderlyThreadsWhoseGrantsAreRevokedAtOnce) {
  const Patience none(0);
  stress(Manners::kOrderly, 4, {1});
  stress(Manners::kOrderly, 6, {3, 8});
}

TEST(Stress, OrderlyThreadsOnTwoLocks) { stress(Manners::kOrderly, 4, {3, 300}); }

TEST(Stress, OrderlyThreadsOnSetsOfStripes) { stress(Manners::kOrderly, 6, {6, 8}); }

TEST(Stress, NestingThreadsOnTwoLocks) { stress(Manners::kNested, 4, {4, 7}); }

// Deadlocks are found only at the end of a slice.

TEST(Stress, UnrulyThreadsOnOneStripe) {
  const UsualSlices slices;
  stress(Manners::kUnruly, 2, {1});
}

TEST(Stress, UnrulyThreadsOnTwoLocks) {
  const UsualSlices slices;
  stress(Manners::kUnruly, 4, {2, 7});
}

TEST(Stress, UnrulyThreadsWhoseGrantsAreRevokedAtOnce) {
  const UsualSlices slices;
  const Patience none(0);
  stress(Manners::kUnruly, 4, {2, 7});
}

TEST(Stress, ManyUnrulyThreadsOnManyStripes) {
  const UsualSlices slices;
  stress(Manners::kUnruly, 8, {16, 300});
}

}  // namespace stripelock::test
