// Which waits a profile of contention records, and what the threads of the process have recorded for it. The records
// themselves are made by the JavaScript of the threads that waited and that released, as only they know their stacks.
//
// Every wait of w milliseconds is recorded with the probability w / every, so long waits always are. Where more than some
// hundred a second would be recorded, as thousands wait at once, `every` rises meanwhile. The release that ends a wait draws,
// since it is known there for how long the wait has lasted; then both threads record, or neither.

#pragma once

#include <string>
#include <vector>

#include "core/sync.h"

namespace stripelock {

enum class Draw : std::uint8_t {
  kNone,  // nobody has drawn
  kLeftOut,
  // This and all higher ones: the profile for which the wait is recorded.
  kRecorded,
};

inline bool isRecorded(Draw draw) { return draw >= Draw::kRecorded; }

// May be used by any thread at any time. A thread that ends loses nothing that it has added.
class ContentionProfile {
 public:
  static ContentionProfile& instance();

  // Milliseconds. No names: all locks. False: one is being taken already.
  bool start(double threshold, double every, std::vector<std::string> names);
  void stop();

  // For a wait that has lasted that long. Takes no lock.
  Draw draw(Nanoseconds waited);
  // What a wait must last now to be recorded in any case.
  Nanoseconds every() const { return every_.load() * factor_.load(); }

  // Keeps it for take(), or counts it as left out if there are too many. Drops it if it was drawn for an earlier profile.
  void add(std::string record, Draw draw);
  struct Taken {
    std::vector<std::string> records;
    // How many were left out since the last call.
    std::uint64_t leftOut = 0;
  };
  Taken take();

 private:
  static constexpr std::size_t kMostRecords = 16'384;
  // So many waits are recorded in such a time, or `every` doubles. With a quarter of them it falls again.
  static constexpr Nanoseconds kWindow = 100'000'000;
  static constexpr std::uint32_t kMostInWindow = 30;
  static constexpr Nanoseconds kMostFactor = 1 << 20;

  void adapt();

  Mutex mutex_;
  bool running_ = false;
  Taken taken_;
  // The result of draw() for a wait that the current profile records. It differs from those of the 253 profiles before.
  std::atomic<Draw> recorded_{Draw::kRecorded};
  std::atomic<Nanoseconds> threshold_{0};
  std::atomic<Nanoseconds> every_{1};
  // Estimates: threads that draw at once may each change them.
  std::atomic<Nanoseconds> factor_{1};
  std::atomic<Nanoseconds> windowEnd_{0};
  std::atomic<std::uint32_t> inWindow_{0};
  std::atomic<std::uint64_t> draws_{0};
};

}  // namespace stripelock
