// The key of a web lock: its manager and its exact name, as bytes.
//
// A name is JavaScript's UTF-16, including unpaired surrogates. Most names need only the lower half of each unit, and
// are stored that way. So names of twice the length fit into the record itself (exact_key.h), and half as many bytes
// are hashed. The first 8 bytes contain the manager, and whether each unit takes two bytes. So two keys are equal if
// and only if their bytes are equal.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/exact_key.h"

namespace stripelock {

class WebLockName {
 public:
  // The number of each manager is below this limit.
  static constexpr std::uint64_t kMostManagers = std::uint64_t{1} << 53;

  WebLockName(std::uint64_t manager, std::u16string_view name);
  WebLockName(const WebLockName&) = delete;
  WebLockName& operator=(const WebLockName&) = delete;

  // Valid during the lifetime of this object.
  const KeyView& view() const { return view_; }

  // The manager and the name in a key.
  static std::uint64_t managerOf(const KeyView& key);
  static std::u16string nameOf(const KeyView& key);

 private:
  std::string_view encode(std::uint64_t manager, std::u16string_view name);

  // Not initialized, because clearing it would cost more than the rest of the constructor.
  std::array<char, 264> few_;
  std::unique_ptr<char[]> many_;
  const KeyView view_;
};

}  // namespace stripelock
