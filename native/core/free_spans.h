// Memory of tables that nobody uses any more, for new tables: parts of arenas (lib/engine/native/arena.ts).
//
// Invariant S1: a span is in here only while nobody can reach it. Registry adds a span when its last member leaves, and
// only if its memory was never shared: then no handle of it exists, in no thread and in no message. Whoever takes it out
// is the only one who knows of it.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/sync.h"

namespace stripelock {

// Where a table's memory is: bytes from the start of an arena, which has a number of its own.
struct Span {
  std::uint64_t arena = 0;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

// Any thread may call any of these. The mutex is a leaf.
class FreeSpans {
 public:
  // One more thread allocates in the arena. Once the last of them has left, nobody would take its spans, so the arena is
  // forgotten.
  void join(std::uint64_t arena);
  void leave(std::uint64_t arena);
  void add(const Span& span);
  // The first part that is large enough, which is then no longer free. Its bytes are what the last table left there.
  std::optional<std::uint32_t> take(std::uint64_t arena, std::uint32_t bytes);

 private:
  struct Arena {
    std::uint32_t threads = 0;
    // Bytes by offset. No part touches another: they are joined.
    std::map<std::uint32_t, std::uint32_t> parts;
  };

  Mutex mutex_;
  std::unordered_map<std::uint64_t, Arena> arenas_;
};

}  // namespace stripelock
