#include "core/table/contention_profile.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "core/table/layout.h"
#include "core/table/registry.h"

namespace stripelock {

namespace {

// One step of SplitMix64 (Steele, Lea, Flood, 2014).
std::uint64_t mixed(std::uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return number ^ (number >> 31);
}

// Longer times are cut to one hour.
Nanoseconds nanoseconds(double milliseconds) {
  return static_cast<Nanoseconds>(std::clamp(milliseconds, 0.0, 3.6e6) * 1e6);
}

Draw after(Draw recorded) {
  const auto next = static_cast<std::uint8_t>(static_cast<std::uint8_t>(recorded) + 1);
  return std::max(Draw::kRecorded, static_cast<Draw>(next));
}

}  // namespace

ContentionProfile& ContentionProfile::instance() {
  // Never destroyed: threads may outlive static destruction.
  static ContentionProfile& profile = *new ContentionProfile();
  return profile;
}

bool ContentionProfile::start(double threshold, double every, std::vector<std::string> names) {
  {
    const Lock lock(mutex_);
    if (std::exchange(running_, true)) return false;
    // mutant: profile-keeps-earlier-records
    taken_ = {};
    // mutant: profile-takes-earlier-draws
    recorded_.store(after(recorded_.load()));
    // mutant: profile-keeps-earlier-pace
    factor_.store(1);
    inWindow_.store(0);
    threshold_.store(nanoseconds(threshold));
    every_.store(std::max<Nanoseconds>(1, nanoseconds(every)));
  }
  Registry::instance().observe(kObserveProfile, true, std::move(names));
  return true;
}

void ContentionProfile::stop() {
  Registry::instance().observe(kObserveProfile, false);
  const Lock lock(mutex_);
  running_ = false;
  // mutant: profile-keeps-earlier-lease-waits
  clearLeaseWaits();
}

Draw ContentionProfile::draw(Nanoseconds waited) {
  // recorded_ is read first. If another profile starts meanwhile, the values below may belong to that profile. Then
  // add() drops the record, because recorded_ has changed.
  const Draw recorded = recorded_.load();
  if (waited < threshold_.load()) return Draw::kLeftOut;
  const Nanoseconds every = this->every();
  if (waited < every) {
    const std::uint64_t random = mixed(draws_.fetch_add(0x9e3779b97f4a7c15u));
    if (random % static_cast<std::uint64_t>(every) >= static_cast<std::uint64_t>(waited))
      return Draw::kLeftOut;
  }
  adapt();
  return recorded;
}

void ContentionProfile::adapt() {
  const Nanoseconds time = recently();
  const std::uint32_t recorded = inWindow_.fetch_add(1) + 1;
  if (recorded >= kMostInWindow) {
    factor_.store(std::min(kMostFactor, factor_.load() * 2));
  } else if (time < windowEnd_.load()) {
    return;
  } else if (recorded < kMostInWindow / 4) {
    factor_.store(std::max<Nanoseconds>(1, factor_.load() / 2));
  }
  inWindow_.store(0);
  windowEnd_.store(time + kWindow);
}

std::uint64_t ContentionProfile::beginLeaseWait(const void* thread, const std::string& place,
                                                Nanoseconds since) {
  const std::uint64_t random = mixed(draws_.fetch_add(0x9e3779b97f4a7c15u));
  const auto shortest = static_cast<Nanoseconds>(random % static_cast<std::uint64_t>(every()));
  const Nanoseconds due = since + std::max(threshold_.load(), shortest);
  const Lock lock(mutex_);
  const std::uint64_t wait = ++lastLeaseWait_;
  if (!running_) return wait;
  leaseWaits_.emplace(wait, LeaseWait{.thread = thread, .place = place, .due = due});
  dueWaits_.emplace(place, due, wait);
  return wait;
}

Draw ContentionProfile::endLeaseWait(std::uint64_t wait) {
  const Lock lock(mutex_);
  const auto found = leaseWaits_.find(wait);
  if (found == leaseWaits_.end()) return Draw::kLeftOut;
  // mutant: profile-draws-again-for-leases
  const bool isLong = found->second.due <= now();
  removeLeaseWait(found);
  if (!isLong) return Draw::kLeftOut;
  adapt();
  return recorded_.load();
}

Draw ContentionProfile::drawLeaseRelease(const std::string& place) {
  const Lock lock(mutex_);
  const auto first = dueWaits_.lower_bound({place, std::numeric_limits<Nanoseconds>::min(), 0});
  if (first == dueWaits_.end()) return Draw::kLeftOut;
  // mutant: profile-takes-any-place
  const bool isThere = std::get<0>(*first) == place;
  return isThere && std::get<1>(*first) <= now() ? recorded_.load() : Draw::kLeftOut;
}

void ContentionProfile::leaveLeaseWaits(const void* thread) {
  const Lock lock(mutex_);
  for (auto wait = leaseWaits_.begin(); wait != leaseWaits_.end();) {
    const auto next = std::next(wait);
    // mutant: profile-keeps-waits-of-ended-threads
    if (wait->second.thread == thread) removeLeaseWait(wait);
    wait = next;
  }
}

void ContentionProfile::removeLeaseWait(LeaseWaits::iterator wait) {
  const auto& [number, of] = *wait;
  dueWaits_.erase({of.place, of.due, number});
  leaseWaits_.erase(wait);
}

void ContentionProfile::clearLeaseWaits() {
  leaseWaits_.clear();
  dueWaits_.clear();
}

void ContentionProfile::add(std::string record, Draw draw) {
  const Lock lock(mutex_);
  if (!running_ || draw != recorded_.load()) return;
  if (taken_.records.size() < kMostRecords)
    taken_.records.push_back(std::move(record));
  else
    ++taken_.leftOut;
}

ContentionProfile::Taken ContentionProfile::take() {
  const Lock lock(mutex_);
  return std::exchange(taken_, {});
}

}  // namespace stripelock
