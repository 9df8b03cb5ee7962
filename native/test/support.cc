#include "test/support.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <gtest/gtest.h>

namespace stripelock::test {

namespace {

[[maybe_unused]] const bool slicesSet = [] {
  const char* const slices = std::getenv("STRIPELOCK_SLICES");
  if (slices && std::strcmp(slices, "none") == 0) seamShortestSlice.store(kAnHour);
  return true;
}();

// Ends the process if a test lasts too long, and prints the test's name. A thread that is never woken cannot be
// ended.
class Watchdog : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo&) override {
    done_ = false;
    thread_ = std::thread([this] {
      Lock lock(mutex_);
      // A test has only a few waits of up to kStuck, and a stress test runs for the requested time.
      const double limit = 4 * kStuck + 1000.0 * static_cast<double>(numberFrom("STRIPELOCK_SECONDS", 2));
      const auto length = std::chrono::duration<double, std::milli>(limit);
      if (!ended_.wait_for(lock, length, [this] { return done_; })) {
        stuck("this test");
      }
    });
  }
  void OnTestEnd(const ::testing::TestInfo&) override {
    {
      const Lock lock(mutex_);
      done_ = true;
      ended_.notify_one();
    }
    thread_.join();
  }

 private:
  std::thread thread_;
  Mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
};

class StartsWatchdog : public ::testing::Environment {
 public:
  void SetUp() override { ::testing::UnitTest::GetInstance()->listeners().Append(new Watchdog); }
};
[[maybe_unused]] ::testing::Environment* const watchdog =
    ::testing::AddGlobalTestEnvironment(new StartsWatchdog);

}  // namespace

void stuck(const char* what) {
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::fprintf(stderr, "stuck: %s, in %s.%s\n", what, test ? test->test_suite_name() : "no test",
               test ? test->name() : "");
  if (seamShortestSlice.load() != 0) std::fprintf(stderr, "(without slices: a wake-up may be lost)\n");
  std::abort();
}

void describe(Table& table) {
  std::fprintf(stderr, "lock of %u stripes\n", table.stripes());
  for (const StripeInfo& info : inspect(table)) {
    std::fprintf(stderr, "  stripe %u, word %08x, held by", info.stripe, info.word);
    for (const std::int32_t holder : info.holders) std::fprintf(stderr, " %d", holder);
    for (const StripeInfo::Waiting& waiter : info.waiters) {
      std::fprintf(stderr, "\n    %s %s waiter of thread %d, for %.0f ms", waiter.async ? "async" : "sync",
                   traitsOf(waiter.mode).name, waiter.threadId, waiter.milliseconds);
    }
    std::fprintf(stderr, "\n");
  }
}

double milliseconds(Nanoseconds time) { return static_cast<double>(time) / 1e6; }

std::uint64_t numberFrom(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::mt19937_64 seeded(const char* name) {
  const std::uint64_t seed = numberFrom("STRIPELOCK_SEED", std::random_device()());
  std::printf("%s: STRIPELOCK_SEED=%llu\n", name, static_cast<unsigned long long>(seed));
  return std::mt19937_64(seed);
}

bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::after(kStuck);
  while (!condition()) {
    if (deadline.passedAt(now())) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

SharedMemory::SharedMemory(std::uint32_t stripes)
    : stripes_(stripes), lines_(std::make_unique<Line[]>(byteLengthFor(stripes) / sizeof(Line))) {}

Word& SharedMemory::word(std::uint32_t stripe) {
  return static_cast<Word*>(data())[kHeaderInts + (stripe << kStripeShift)];
}

bool SharedMemory::isFree() {
  for (std::uint32_t stripe = 0; stripe < stripes_; ++stripe) {
    if (word(stripe).load() != 0) return false;
  }
  return true;
}

std::int64_t SharedMemory::cell(std::uint32_t index) { return static_cast<Cell*>(data())[index].load(); }

namespace {

std::atomic<std::int32_t> nextThreadId{1};

}  // namespace

Environment::Environment() {
  const auto wake = [](void* data) {
    auto& environment = *static_cast<Environment*>(data);
    const Lock lock(environment.mutex_);
    environment.awake_ = true;
    ++environment.wakes_;
    environment.woken_.notify_one();
  };
  participant_ = Registry::instance().join(nextThreadId.fetch_add(1), {.wake = wake, .data = this});
}

void Environment::end() {
  if (participant_) Registry::instance().leave(*participant_);
  participant_ = nullptr;
}

bool Environment::awaitWake(double milliseconds) {
  Lock lock(mutex_);
  const auto limit = std::chrono::duration<double, std::milli>(milliseconds);
  const bool woken = woken_.wait_for(lock, limit, [this] { return awake_; });
  awake_ = false;
  return woken;
}

int Environment::wakes() {
  const Lock lock(mutex_);
  return wakes_;
}

namespace {

std::atomic<void (*)(const char*)> seamHandler{nullptr};

// Installed before any thread starts, as the seam requires. Its handler may change later.
[[maybe_unused]] const bool seamInstalled = [] {
  seamHook = [](const char* point) {
    if (const auto handler = seamHandler.load()) handler(point);
  };
  return true;
}();

// The point at which the only barrier stops a thread. This variable is static, because a thread may read it after the
// barrier has ended.
std::atomic<const char*> barrierPoint{nullptr};
std::atomic<int> barrierArrivals{0};

}  // namespace

void onSeam(void (*handler)(const char* point)) { seamHandler.store(handler); }

Barrier::Barrier(const char* point) {
  barrierArrivals.store(0);
  barrierPoint.store(point);
  onSeam([](const char* passed) {
    const char* const point = barrierPoint.load();
    if (!point || std::strcmp(passed, point) != 0) return;
    if (barrierArrivals.fetch_add(1) != 0) return;
    while (barrierPoint.load() == point) std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
}

Barrier::~Barrier() {
  open();
  onSeam(nullptr);
}

bool Barrier::awaitArrival() const {
  return eventually([] { return barrierArrivals.load() != 0; });
}

void Barrier::open() { barrierPoint.store(nullptr); }

std::vector<AsyncWaits::Granted> takeGrants(Environment& environment) {
  std::vector<AsyncWaits::Granted> grants;
  AsyncWaits::Granted next{};
  while (environment.async().take(&next, 1) == 1) grants.push_back(next);
  return grants;
}

std::vector<AsyncWaits::Granted> awaitGrants(Environment& environment) {
  // A designated waiter may be woken, find its stripe taken, and keep waiting.
  while (environment.awaitWake(kStuck)) {
    std::vector<AsyncWaits::Granted> grants = takeGrants(environment);
    if (!grants.empty()) return grants;
  }
  return {};
}

std::vector<AsyncWaits::Expired> takeExpired(Environment& environment) {
  std::vector<AsyncWaits::Expired> expired;
  AsyncWaits::Expired next{};
  while (environment.async().expire(&next, 1) == 1) expired.push_back(next);
  return expired;
}

namespace {

// Sets the end of the barging period, as if the queue had formed at another time.
void setFairAt(Client& client, std::uint32_t stripe, Nanoseconds point) {
  const Lock lock(client.table().shardOf(stripe));
  client.table().queueOf(stripe).fairAt = point;
}

}  // namespace

void makeHandOverDue(Client& client, std::uint32_t stripe) { setFairAt(client, stripe, 0); }

void putHandOverOff(Client& client, std::uint32_t stripe) { setFairAt(client, stripe, now() + kAnHour); }

std::size_t waitersOf(Client& client, std::uint32_t stripe) {
  const Lock lock(client.table().shardOf(stripe));
  std::size_t count = 0;
  for (const Waiter* waiter = client.table().queueOf(stripe).head; waiter; waiter = waiter->next) ++count;
  return count;
}

bool awaitWaiters(Client& client, std::uint32_t stripe, std::size_t count) {
  return eventually([&] { return waitersOf(client, stripe) == count; });
}

namespace {

std::atomic<std::uint64_t> windowSeed{0};

void widen(const char*) {
  static std::atomic<std::uint64_t> threads{0};
  thread_local Random random(windowSeed.load() + threads.fetch_add(1));
  const std::uint32_t draw = below(random, 64);
  if (draw < 8) std::this_thread::yield();
  if (draw == 8) std::this_thread::sleep_for(std::chrono::microseconds(below(random, 200)));
}

}  // namespace

WidenedWindows::WidenedWindows(std::uint64_t seed) {
  windowSeed.store(seed);
  onSeam(widen);
}

WidenedWindows::~WidenedWindows() { onSeam(nullptr); }

}  // namespace stripelock::test
