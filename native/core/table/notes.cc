#include "core/table/notes.h"

namespace stripelock {

std::uint32_t Notes::add(Note note) {
  const Lock lock(mutex_);
  // The counter wraps after 2^32 notes. By then most ids are unused again.
  while (notes_.count(nextId_) != 0) ++nextId_;
  notes_.emplace(nextId_, std::move(note));
  return nextId_++;
}

void Notes::remove(std::uint32_t id) {
  const Lock lock(mutex_);
  notes_.erase(id);
}

void Notes::removeAll(const Membership& membership) {
  const Lock lock(mutex_);
  std::erase_if(notes_, [&](const auto& entry) { return entry.second.membership == &membership; });
}

std::vector<Note> Notes::all() const {
  const Lock lock(mutex_);
  std::vector<Note> all;
  all.reserve(notes_.size());
  for (const auto& [id, note] : notes_) all.push_back(note);
  return all;
}

}  // namespace stripelock
