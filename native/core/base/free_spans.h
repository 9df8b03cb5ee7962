// The memory of unused tables, kept for new tables. Spans are parts of arenas (lib/engine/native/arena.ts).
//
// Invariant S1: FreeSpans contains a span only while no thread can reach it. Registry adds a span when the last thread
// leaves the table in that span, and only if the table was never shared. So no thread and no message has a handle of
// the table. After take(), only the caller can reach the span.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/base/sync.h"

namespace stripelock {

// The memory of a table: the number of its arena, and its offset and size there, in bytes.
struct Span {
  std::uint64_t arena = 0;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

// Any thread may call these functions. The mutex is a leaf lock.
class FreeSpans {
 public:
  // A thread joins an arena before it allocates there, and leaves it later. After the last thread has left, no thread
  // can take the arena's spans, so FreeSpans forgets the arena.
  void join(std::uint64_t arena);
  void leave(std::uint64_t arena);
  void add(const Span& span);
  // Takes memory from the first unused part that is large enough, and returns the memory's offset. The memory still
  // contains the bytes of its last table.
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
