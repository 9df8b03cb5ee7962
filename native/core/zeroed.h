// A large array of zeroes, of which the system provides only the memory that is touched.

#pragma once

#include <cstddef>
#include <type_traits>

#include "core/platform.h"

namespace stripelock {

// Not calloc: once a block of that size was freed, calloc may take it again, and writes to all of it.
template <typename T>
class Zeroed {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit Zeroed(std::size_t count)
      : bytes_(count * sizeof(T)), items_(static_cast<T*>(takeZeroed(bytes_))) {}
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
