// What the threads of the stress tests do.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "test/stress_world.h"

namespace stripelock::test {

enum class Manners {
  // Waits only while holding nothing: no deadlock is possible, so none may be reported.
  kOrderly,
  // Waits while it holds stripes, but only for stripes after all of these: no deadlock either.
  kNested,
  // Waits while holding anything, in any order.
  kUnruly,
};

// What a thread is doing, for the watchdog.
struct Activity {
  std::atomic<const char*> what{"starting"};
  std::atomic<Nanoseconds> since{now()};

  void begin(const char* action) {
    what.store(action);
    since.store(now());
  }
};

// A thread's life between joining and dying: its environment, its locks, what it holds and waits for.
class Life {
 public:
  Life(std::vector<std::unique_ptr<World>>& worlds, Manners manners, Random& random, Activity& activity);

  // One random action. False: the thread must die.
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

}  // namespace stripelock::test
