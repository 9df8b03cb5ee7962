// Whether the keys that a thread looks up are mostly ones that it has looked up before, of the last tens of thousands.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stripelock {

// An estimate, for a few instructions a key. It remembers some bits of each key whose hash is in the sample, in a table
// where the last key of a place wins. So it sees a key again if fewer than about kShare * kPlaces others came between.
class Recurrence {
 public:
  // The thread looked up a key. `again`: it is one of the few that the caller still knows. These count as they are, since
  // a few keys may all be outside of the sample.
  void note(std::uint64_t hash, bool again) {
    if (++noted_ % kWindow == 0) endWindow();
    if (again) {
      ++found_;
    } else if (hash >> 61 == 0 && !marks_.empty()) {
      std::uint16_t& mark = marks_[hash >> 44 & (kPlaces - 1)];
      const auto own = static_cast<std::uint16_t>(hash >> 16);
      if (mark == own) found_ += kShare;
      mark = own;
    }
  }
  // Whether most of the last keys were. False until many were looked up.
  bool isUsual() const { return usual_; }

 private:
  // One of so many keys is in the sample: see the upper bits of the hash.
  static constexpr std::uint32_t kShare = 8;
  static constexpr std::size_t kPlaces = 4096;
  static constexpr std::uint32_t kWindow = 512;
  // Before so many keys the memory would be more than what the keys themselves take.
  static constexpr std::uint32_t kFewKeys = 4096;

  void endWindow() {
    usual_ = found_ >= kWindow / 2;
    found_ = 0;
    if (noted_ == kFewKeys && marks_.empty()) marks_.resize(kPlaces);
  }

  std::vector<std::uint16_t> marks_;
  std::uint32_t noted_ = 0;
  std::uint32_t found_ = 0;
  bool usual_ = false;
};

}  // namespace stripelock
