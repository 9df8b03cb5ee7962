// The key of a web lock: its manager and its exact name, as bytes.
//
// A name is UTF-16 as JavaScript has it, unpaired surrogates included. Most names need only the lower half of each
// unit, and are kept so: then twice as long a name lies in its record itself (exact_key.h), and half as much is hashed.
// The first 8 bytes say which it is. So equal names have equal bytes, and others have not.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/exact_key.h"

namespace stripelock {

class WebLockName {
 public:
  // Managers are below this.
  static constexpr std::uint64_t kMostManagers = std::uint64_t{1} << 53;

  WebLockName(std::uint64_t manager, std::u16string_view name);
  WebLockName(const WebLockName&) = delete;
  WebLockName& operator=(const WebLockName&) = delete;

  // Valid while this lives.
  const KeyView& view() const { return view_; }

  // The opposite: what a view was made of.
  static std::uint64_t managerOf(const KeyView& key);
  static std::u16string nameOf(const KeyView& key);

 private:
  std::string_view encode(std::uint64_t manager, std::u16string_view name);

  // No initial value: writing one would cost more than the rest.
  std::array<char, 264> few_;
  std::unique_ptr<char[]> many_;
  const KeyView view_;
};

}  // namespace stripelock
