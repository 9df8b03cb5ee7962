// The memory of unused tables, kept for new tables. Spans are parts of arenas (lib/engine/native/arena.ts).
//
// Invariant S1: FreeSpans contains a span only while no thread can reach it. Registry adds a span when the last thread
// leaves its table, and only if the memory was never shared. So no thread and no message has a handle of the span.
// After take(), only the caller can reach the span.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/base/sync.h"

namespace stripelock {

// The memory of a table: an offset in bytes into an arena, which has a number.
struct Span {
  std::uint64_t arena = 0;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

// Any thread may call these functions. The mutex is a leaf lock.
class FreeSpans {
 public:
  // The threads that allocate in an arena join it, and leave it later. When the last one leaves, no thread can take the
  // arena's spans anymore, so the arena is forgotten.
  void join(std::uint64_t arena);
  void leave(std::uint64_t arena);
  void add(const Span& span);
  // Takes memory from the first part that is large enough, and returns its offset. The memory still contains the last
  // table's bytes.
  std::optional<std::uint32_t> take(std::uint64_t arena, std::uint32_t bytes);

 private:
  struct Arena {
    std::uint32_t threads = 0;
    // The size of each unused part in bytes, by offset. Adjacent parts are joined.
    std::map<std::uint32_t, std::uint32_t> parts;
  };

  Mutex mutex_;
  std::unordered_map<std::uint64_t, Arena> arenas_;
};

}  // namespace stripelock
