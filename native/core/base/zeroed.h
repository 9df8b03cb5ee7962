// A large array of zeroes. The system provides memory only for the parts that are accessed.

#pragma once

#include <cstddef>
#include <type_traits>

#include "core/base/platform.h"

namespace stripelock {

// Does not use calloc: if calloc reuses a freed block, it writes zeroes to the whole block.
template <typename T>
class Zeroed {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit Zeroed(std::size_t count)
      : bytes_(count * sizeof(T)),  // NOLINT(bugprone-sizeof-expression): T may be a pointer
        items_(static_cast<T*>(takeZeroed(bytes_))) {}
  ~Zeroed() { freeZeroed(items_, bytes_); }
  Zeroed(const Zeroed&) = delete;
  Zeroed& operator=(const Zeroed&) = delete;

  T& operator[](std::size_t index) const { return items_[index]; }
  T* get() const { return items_; }

 private:
  const std::size_t bytes_;
  T* const items_;
};

}  // namespace stripelock
