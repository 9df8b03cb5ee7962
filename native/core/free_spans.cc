#include "core/free_spans.h"

#include <iterator>

namespace stripelock {

void FreeSpans::add(const Span& span) {
  const Lock lock(mutex_);
  Parts& parts = arenas_[span.arena];
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
  Parts& parts = found->second;
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const auto [offset, room] = *part;
    if (room < bytes) continue;
    parts.erase(part);
    if (room > bytes) parts.emplace(offset + bytes, room - bytes);
    if (parts.empty()) arenas_.erase(found);
    return offset;
  }
  return std::nullopt;
}

}  // namespace stripelock
