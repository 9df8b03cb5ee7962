#include "test/stress_life.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace stripelock::test {

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

// Whether the stripe comes after all held ones in the one order in which nested acquisitions take stripes.
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

// False: interrupted, as by terminate().
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
      return false;
  }
  return true;
}

void Life::start() {
  Use& use = anyUse();
  Stripes stripes = anyStripes(use.world);
  // Never forever: this thread may later hold the very stripe that blocks this acquisition, and nobody would notice.
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
  // Grants to this same thread wake no event loop.
  if (environment_.async().hasReady()) settle();
}

// A release may grant what this thread waited for, in either lock.
void Life::releaseAll() {
  const auto holding = [](const std::unique_ptr<Use>& use) { return !use->held.empty(); };
  for (;;) {
    const auto use = std::find_if(uses_.begin(), uses_.end(), holding);
    if (use == uses_.end()) return;
    releaseAny(**use);
  }
}

// What the event loop does when it is woken or a deadline passes.
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
  if (oneIn(random_, 4)) environment_.async().lookForIdle();
  for (const AsyncWaits::Expired& expired : takeExpired(environment_)) {
    const auto one = byId(expired.id);
    ASSERT_NE(one, pending_.end()) << "expired what was settled before";
    one->use->world.timeouts.fetch_add(1);
    pending_.erase(one);
  }
}

// Sleeps like an idle event loop: only a wake or a deadline ends it.
void Life::awaitOne() {
  if (manners_ == Manners::kOrderly) releaseAll();
  const std::size_t before = pending_.size();
  while (before != 0 && pending_.size() == before) {
    const Nanoseconds left = environment_.async().nextDeadline().point() - now();
    awaitWakeFor(std::max(0.0, milliseconds(left)));
    settle();
  }
}

// A grant that another thread made must wake the event loop, even if late.
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

// Closes one lock while the thread lives on: what it held there is still abandoned.
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
  // The event loop turns only now and then, so that grants stay undelivered for a while.
  if (oneIn(random_, 4)) {
    activity_.begin("settle");
    awaitWakeFor(0);
    settle();
  }
  // Bounds the number of holds. Otherwise everything would soon be held for long.
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

}  // namespace stripelock::test
