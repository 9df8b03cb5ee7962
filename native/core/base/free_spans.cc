#include "core/base/free_spans.h"

#include <iterator>

namespace stripelock {

void FreeSpans::join(std::uint64_t arena) {
  const Lock lock(mutex_);
  ++arenas_[arena].threads;
}

void FreeSpans::leave(std::uint64_t arena) {
  const Lock lock(mutex_);
  const auto found = arenas_.find(arena);
  if (--found->second.threads == 0) arenas_.erase(found);
}

void FreeSpans::add(const Span& span) {
  const Lock lock(mutex_);
  const auto found = arenas_.find(span.arena);
  if (found == arenas_.end()) return;
  auto& parts = found->second.parts;
  std::uint32_t offset = span.offset;
  std::uint32_t bytes = span.bytes;
  const auto after = parts.lower_bound(offset);
  if (after != parts.end() && after->first == offset + bytes) {
    bytes += after->second;
    parts.erase(after);
  }
  const auto behind = parts.lower_bound(offset);
  if (behind != parts.begin()) {
    const auto before = std::prev(behind);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      parts.erase(before);
    }
  }
  parts.emplace(offset, bytes);
}

std::optional<std::uint32_t> FreeSpans::take(std::uint64_t arena, std::uint32_t bytes) {
  const Lock lock(mutex_);
  const auto found = arenas_.find(arena);
  if (found == arenas_.end()) return std::nullopt;
  auto& parts = found->second.parts;
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const auto [offset, room] = *part;
    if (room < bytes) continue;
    parts.erase(part);
    if (room > bytes) parts.emplace(offset + bytes, room - bytes);
    return offset;
  }
  return std::nullopt;
}

}  // namespace stripelock
