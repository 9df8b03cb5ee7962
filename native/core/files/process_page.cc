#include "core/files/process_page.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/base/hash.h"
#include "core/base/platform.h"

namespace stripelock {

namespace {

constexpr std::uint64_t kSharedBit = std::uint64_t{1} << 63;
// A token in the page that is this far ahead of the clock is garbage.
constexpr std::uint64_t kFarAhead = std::uint64_t{1} << 55;
// The process that has waited longest tries every 10 ms. If it has not tried for this long, it is stopped or dead.
constexpr Nanoseconds kStopped = 60 * kMillisecond;

std::uint64_t bitOf(int number) { return std::uint64_t{1} << (number % 64); }
void setBit(std::atomic<std::uint64_t>& bits, std::uint64_t bit) {
  if ((bits.load() & bit) == 0) bits.fetch_or(bit);
}
void clearBit(std::atomic<std::uint64_t>& bits, std::uint64_t bit) {
  if ((bits.load() & bit) != 0) bits.fetch_and(~bit);
}

// A turn: 32 bits of the key, and the end of the turn in milliseconds.
std::uint64_t turnOf(std::uint64_t byte, Nanoseconds end) {
  return (byte >> 8 << 32) | static_cast<std::uint32_t>(end / kMillisecond);
}
bool isFor(std::uint64_t turn, std::uint64_t byte) { return turn >> 32 == (byte >> 8 & 0xffffffff); }
// Even with garbage in the word, a turn counts for no longer than kLongestTurn (preserves G3).
bool counts(std::uint64_t turn, Nanoseconds time) {
  const std::uint32_t left =
      static_cast<std::uint32_t>(turn) - static_cast<std::uint32_t>(time / kMillisecond);
  // mutant: process-turn-without-end
  return left > 0 && left <= kLongestTurn / kMillisecond;
}
bool hasTurn(std::uint64_t turn, std::uint64_t byte) { return isFor(turn, byte) && counts(turn, elapsed()); }
// This value replaces a turn that its process has missed.
constexpr std::uint64_t kPassed = 1;

// The time at which a waiter got a key: 24 bits of the key, and 40 bits of the time in units of 1,024 ns.
constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << 40) - 1;
std::uint64_t servedOf(std::uint64_t byte, Nanoseconds time) {
  return (byte >> 8 << 40) | (static_cast<std::uint64_t>(time) >> 10 & kTimeMask);
}
// 0 if the word belongs to another key.
Nanoseconds servedAt(std::uint64_t word, std::uint64_t byte, Nanoseconds time) {
  if (word >> 40 != (byte >> 8 & 0xffffff)) return 0;
  const std::uint64_t ago = ((static_cast<std::uint64_t>(time) >> 10) - word) & kTimeMask;
  return time - static_cast<Nanoseconds>(ago << 10);
}

}  // namespace

// ── opening ──

bool ProcessPage::open(LockFile& file, const std::string& path, const std::string& title,
                       const FileShape& shape, FileError& error) {
  file_ = &file;
  if (!header_.open(file, path, shape, {highestToken, isOwnSize}, error)) return false;
  int number = 0;
  page_ = static_cast<Page*>(file.map(sizeof(Page) + header_.files() * kPerFile, kReserved, number));
  if (!page_) {
    error = {FileFault::kOpen, number};
    return false;
  }
  title_ = title;
  own_.assign(static_cast<std::size_t>(places()), false);
  static_cast<void>(claimSlot());
  return true;
}

bool ProcessPage::isOwnSize(std::uint64_t size) {
  return size > sizeof(Page) && (size - sizeof(Page)) % kPerFile == 0 &&
         (size - sizeof(Page)) / kPerFile <= kMostSpread;
}

std::uint64_t ProcessPage::highestToken(LockFile& file) {
  std::array<std::uint64_t, kTokens> tokens{};
  if (!file.read(tokens.data(), sizeof tokens, offsetof(Page, lastTokens))) return 0;
  std::uint64_t highest = 0;
  for (const std::uint64_t token : tokens) {
    if (token < static_cast<std::uint64_t>(wallClock()) + kFarAhead) highest = std::max(highest, token);
  }
  return highest;
}

bool ProcessPage::claimSlot() {
  int number = 0;
  for (int slot = 0; slot_ == kNoSlot && slot < kSlots; ++slot) {
    if (file_->lock(kLifeBytes + static_cast<std::uint64_t>(slot), false, number) != LockFile::Answer::kTaken)
      continue;
    // The records of the slot's last process stay, because they report its death.
    forget(slot);
    slot_ = slot;
    writeSlot();
    return true;
  }
  return false;
}

void ProcessPage::writeSlot() {
  if (slot_ == kNoSlot) return;
  Slot& slot = page_->slots[slot_];
  slot.pid.store(processId());
  std::memset(slot.title, 0, sizeof slot.title);
  title_.copy(slot.title, sizeof slot.title - 1);
}

void ProcessPage::restore() {
  header_.restore(page_);
  writeSlot();
}

// ── waiters ──

ProcessPage::Cell* ProcessPage::cellOf(int slot, std::uint64_t byte) const {
  Cells& cells = cellsOf(slot, byte);
  for (std::uint64_t bits = cells.used.load(); bits != 0; bits &= bits - 1) {
    const int i = std::countr_zero(bits);
    if (cells.wanted[i].load() == byte) return &cells.cells[i];
  }
  return nullptr;
}

void ProcessPage::enrol(std::uint64_t byte, const Wait& wait) {
  if (slot_ == kNoSlot) return;
  Cells& cells = cellsOf(slot_, byte);
  Cell* cell = cellOf(slot_, byte);
  const bool isNew = !cell;
  if (isNew) {
    const std::uint64_t used = cells.used.load();
    if (~used == 0 || !file_->reserve(&cells)) return;
    cell = &cells.cells[std::countr_zero(~used)];
    cell->turn.store(0);
    cell->missed.store(0);
  }
  cell->since.store((static_cast<std::uint64_t>(wait.since) << 1) | (wait.shared ? 1 : 0));
  cell->threadId.store(wait.threadId);
  cell->triedAt.store(static_cast<std::uint64_t>(elapsed()));
  // Preserves G5.
  // mutant: G5-keeps-the-old-count
  cell->wakesSeen.store(page_->slots[slot_].wakeWord.load());
  if (isNew) {
    const auto i = static_cast<int>(cell - cells.cells);
    cells.wanted[i].store(byte);
    cells.used.fetch_or(bitOf(i));
  }
  // This process tries to lock the byte after it has set this bit. If the attempt fails, the holder unlocks the byte
  // later, and then sees the bit in wakeNext(). A process that takes this slot's last owner for dead may clear the bit
  // at any time (forget).
  setBit(rowAt(byte).waiting[slot_ / 64], bitOf(slot_));
  // A process that has missed its turn is no longer skipped, because it tries again now.
  std::uint64_t turn = cell->turn.load();
  const bool isMissed = turn == kPassed || (isFor(turn, byte) && !counts(turn, elapsed()));
  // mutant: process-forgets-missed-turns
  if (isMissed && cell->turn.compare_exchange_strong(turn, 0)) cell->missed.fetch_add(1);
}

void ProcessPage::withdraw(std::uint64_t byte) {
  if (slot_ == kNoSlot) return;
  Cells& cells = cellsOf(slot_, byte);
  bool waitsInRow = false;
  for (std::uint64_t bits = cells.used.load(); bits != 0; bits &= bits - 1) {
    const int i = std::countr_zero(bits);
    const std::uint64_t wanted = cells.wanted[i].load();
    if (wanted == byte)
      cells.used.fetch_and(~bitOf(i));
    else if (rowOf(wanted) == rowOf(byte))
      waitsInRow = true;
  }
  if (!waitsInRow) clearBit(rowAt(byte).waiting[slot_ / 64], bitOf(slot_));
}

void ProcessPage::forget(int slot) {
  for (Row& row : page_->rows) clearBit(row.waiting[slot / 64], bitOf(slot));
  for (Cells& cells : page_->waits[slot]) {
    if (cells.used.load() != 0) cells.used.store(0);
  }
}

template <typename Visit>
void ProcessPage::forEachWaiting(std::uint64_t byte, Visit visit) const {
  const Row& row = rowAt(byte);
  for (int word = 0; word < static_cast<int>(kBitmapWords); ++word) {
    for (std::uint64_t bits = row.waiting[word].load(); bits != 0; bits &= bits - 1) {
      const int slot = 64 * word + std::countr_zero(bits);
      const Cell* const cell = slot == slot_ ? nullptr : cellOf(slot, byte);
      if (!cell) continue;
      const std::uint64_t since = cell->since.load();
      visit(Waiter{slot, (since & 1) != 0, static_cast<Nanoseconds>(since >> 1)}, *cell);
    }
  }
}

template <typename Rank>
ProcessPage::Waiter ProcessPage::first(std::uint64_t byte, Rank rankOf) const {
  Waiter best;
  int bestRank = 0;
  forEachWaiting(byte, [&](const Waiter& waiter, const Cell& cell) {
    const int rank = rankOf(cell);
    if (best.slot != kNoSlot && (rank > bestRank || (rank == bestRank && waiter.since >= best.since))) return;
    best = waiter;
    bestRank = rank;
  });
  return best;
}

ProcessPage::Waiter ProcessPage::next(std::uint64_t byte) const {
  return first(byte, [](const Cell& cell) { return cell.turn.load() == kPassed ? 1 : 0; });
}

bool ProcessPage::mayBeAwaited(std::uint64_t byte) const {
  const auto& waiting = rowAt(byte).waiting;
  return std::any_of(std::begin(waiting), std::end(waiting),
                     [](const Number& bits) { return bits.load() != 0; });
}

bool ProcessPage::hasTried(const Cell& cell) {
  const Nanoseconds idle = elapsed() - static_cast<Nanoseconds>(cell.triedAt.load());
  return idle >= 0 && idle < kStopped;
}

int ProcessPage::goesBefore(std::uint64_t byte, bool shared, Nanoseconds since) const {
  int kept = kNoSlot;
  int oldest = kNoSlot;
  forEachWaiting(byte, [&](const Waiter& waiter, const Cell& cell) {
    const bool canShare = shared && waiter.shared;
    // mutant: process-keeps-from-readers
    if (!canShare && isKeptFor(waiter.slot, cell, byte)) kept = waiter.slot;
    // Otherwise overlapping shared holds of several processes could keep a writer out forever.
    if (!shared || waiter.shared || waiter.since >= since || !hasTried(cell)) return;
    oldest = waiter.slot;
    since = waiter.since;
  });
  return kept != kNoSlot && !hasOwnTurn(byte) ? kept : oldest;
}

// Several holders that share a key may each give a turn to a different process. So if the key is kept for others, this
// process may have a turn, too.
bool ProcessPage::hasOwnTurn(std::uint64_t byte) const {
  const Cell* const own = ownCell(byte);
  return own && hasTurn(own->turn.load(), byte);
}

void ProcessPage::servedWaiter(std::uint64_t byte, Nanoseconds since) {
  const Waiter waiter = next(byte);
  if (waiter.slot == kNoSlot || since <= waiter.since) rowAt(byte).servedAt.store(servedOf(byte, elapsed()));
}

bool ProcessPage::giveTurn(std::uint64_t byte, Nanoseconds time) {
  for (;;) {
    const Waiter waiter = next(byte);
    const Nanoseconds begin = std::max(waiter.since, servedAt(rowAt(byte).servedAt.load(), byte, time));
    if (waiter.slot == kNoSlot || time - begin < kBargingPeriod) return false;
    Cell* const cell = cellOf(waiter.slot, byte);
    if (!cell) continue;
    const std::uint64_t last = cell->turn.load();
    if (last == kPassed) return false;
    if (!isAlive(waiter.slot)) {
      forget(waiter.slot);
      continue;
    }
    if (isFor(last, byte) && !counts(last, time)) {
      // The process missed its turn: it is stopped, or late.
      cell->turn.store(kPassed);
      continue;
    }
    const std::uint64_t doublings = std::min<std::uint64_t>(cell->missed.load(), kMostDoublings);
    cell->turn.store(turnOf(byte, time + (kTurnFor << doublings)));
    return true;
  }
}

bool ProcessPage::keepTurn(std::uint64_t byte, const Wait& wait) {
  enrol(byte, wait);
  Cell* const cell = ownCell(byte);
  if (cell) cell->turn.store(turnOf(byte, elapsed() + kTurnFor));
  return cell != nullptr;
}

// A dead process must not keep the key until the end of a long turn.
bool ProcessPage::isKeptFor(int slot, const Cell& cell, std::uint64_t byte) const {
  // mutant: process-keeps-for-the-dead
  return hasTurn(cell.turn.load(), byte) && isAlive(slot);
}

std::uint32_t ProcessPage::countKept(std::uint64_t byte) const {
  std::uint32_t count = 0;
  forEachWaiting(byte, [&](const Waiter& waiter, const Cell& cell) {
    if (isKeptFor(waiter.slot, cell, byte)) ++count;
  });
  return hasOwnTurn(byte) ? 0 : count;
}

void ProcessPage::takeTurn(std::uint64_t byte) {
  Cell* const cell = ownCell(byte);
  if (!cell) return;
  cell->missed.store(0);
  // mutant: process-keeps-a-taken-turn
  cell->turn.store(0);
}

bool ProcessPage::wakeWaiter(int slot, std::uint64_t byte) {
  const Cell* const cell = cellOf(slot, byte);
  // mutant: G5-wakes-the-awake
  const bool isAwake = cell && cell->wakesSeen.load() != page_->slots[slot].wakeWord.load();
  // mutant: G6-waits-for-the-dead
  const bool isAlert = isAwake ? hasTried(*cell) : wake(slot);
  // mutant: G6-wakes-the-dead
  if (isAlert || isAlive(slot)) return true;
  // The wake counted for all waits of the process, so its other waits would seem awake.
  // mutant: G6-keeps-the-dead
  forget(slot);
  return false;
}

void ProcessPage::wakeNext(std::uint64_t byte) {
  Waiter waiter;
  do {
    waiter = first(byte, [&](const Cell& cell) {
      const std::uint64_t word = cell.turn.load();
      if (hasTurn(word, byte)) return 0;
      return word == kPassed ? 2 : 1;
    });
    if (waiter.slot == kNoSlot) return;
  } while (!wakeWaiter(waiter.slot, byte));
  // mutant: process-wakes-one-reader
  if (!waiter.shared) return;
  forEachWaiting(byte, [&](const Waiter& other, const Cell&) {
    if (other.slot != waiter.slot && other.shared) static_cast<void>(wakeWaiter(other.slot, byte));
  });
}

// ── holders ──

std::array<std::uint32_t, 2> ProcessPage::bucketsOf(std::uint64_t byte, std::uint32_t files) {
  const std::uint32_t count = files * kBucketsPerFile;
  const auto first = static_cast<std::uint32_t>(byte % count);
  const auto second = static_cast<std::uint32_t>((byte >> 30) % count);
  return {first, second == first ? (first + 1) % count : second};
}

template <typename Visit>
void ProcessPage::forEachPlace(std::uint64_t byte, Visit visit) const {
  for (const std::uint32_t bucket : bucketsOf(byte, header_.files())) {
    for (std::int32_t i = 0; i < kPerBucket; ++i) {
      if (!visit(static_cast<std::int32_t>(bucket) * kPerBucket + i)) return;
    }
  }
}

std::int32_t ProcessPage::placeOf(std::uint64_t byte) const {
  std::int32_t found = kNoPlace;
  forEachPlace(byte, [&](std::int32_t place) {
    if (heldAt(place).load() == byte) found = place;
    return found == kNoPlace;
  });
  return found;
}

bool ProcessPage::hold(std::uint64_t byte, bool shared, const Holder& holder, std::int32_t& place) {
  bool abandoned = false;
  place = kNoPlace;
  forEachPlace(byte, [&](std::int32_t at) {
    const std::uint64_t held = heldAt(at).load();
    if (held == byte) {
      // mutant: process-overlooks-the-dead
      abandoned = true;
      // An exclusive holder takes over the record of the dead holder. So the death is also reported if this process
      // dies now.
      // mutant: process-clears-before-it-writes
      if (!shared && place == kNoPlace) {
        place = at;
        return true;
      }
    }
    // No other process holds the key, so these records are from dead holders (preserves G1, G2).
    if (!shared && (held & ~kSharedBit) == byte) heldAt(at).store(0);
    return true;
  });
  STRIPELOCK_SEAM("process: before it records a holder");
  if (place == kNoPlace) place = claimPlace(shared ? byte | kSharedBit : byte);
  if (place == kNoPlace) return abandoned;
  own_[static_cast<std::size_t>(place)] = true;
  Record& record = recordAt(place);
  // If the disk has no room for the record, the death of this holder is still reported, because the place already
  // contains the key's byte.
  if (!file_->reserve(&record)) return abandoned;
  record.pid = processId();
  record.slot = slot_;
  record.threadId = holder.threadId;
  record.since = holder.since;
  // A long key is left out, because a part of it would look like another key.
  record.length = holder.key.size() <= sizeof record.key ? static_cast<std::uint32_t>(holder.key.size()) : 0;
  std::memcpy(record.key, holder.key.data(), record.length);
  return abandoned;
}

std::int32_t ProcessPage::claimPlace(std::uint64_t held) {
  // The emptier bucket comes first, so a key finds room until 5,000 of 8,192 places are taken.
  std::array<std::uint32_t, 2> both = bucketsOf(held & ~kSharedBit, header_.files());
  const auto taken = [&](std::uint32_t bucket) {
    return std::count_if(std::begin(buckets()[bucket].held), std::end(buckets()[bucket].held),
                         [](const Number& other) { return other.load() != 0; });
  };
  if (taken(both[1]) < taken(both[0])) std::swap(both[0], both[1]);
  for (const std::uint32_t bucket : both) {
    if (!file_->reserve(&buckets()[bucket])) return kNoPlace;
    for (std::int32_t i = 0; i < kPerBucket; ++i) {
      const std::int32_t place = static_cast<std::int32_t>(bucket) * kPerBucket + i;
      std::uint64_t none = 0;
      if (heldAt(place).compare_exchange_strong(none, held)) return place;
    }
  }
  return reclaimPlace(held);
}

std::int32_t ProcessPage::reclaimPlace(std::uint64_t held) {
  // Finding out whether a holder is dead takes system calls, which search all locks of a file. So each call checks only
  // a few holders.
  constexpr std::uint32_t kQuestions = 4;
  std::array<std::int32_t, std::size_t{2} * kPerBucket> all{};
  std::size_t count = 0;
  forEachPlace(held & ~kSharedBit, [&](std::int32_t at) {
    if (!own_[static_cast<std::size_t>(at)]) all[count++] = at;
    return true;
  });
  const bool shared = (held & kSharedBit) != 0;
  const auto replace = [&](std::int32_t at, std::uint64_t other) {
    return heldAt(at).compare_exchange_strong(other, held);
  };
  for (const bool ofReaders : {true, false}) {
    // A reader must not replace a record that reports a death.
    if (shared && !ofReaders) break;
    std::uint32_t asked = 0;
    std::int32_t living = kNoPlace;
    std::uint64_t livingHeld = 0;
    for (std::size_t i = 0; i < count && asked < kQuestions; ++i) {
      const std::int32_t at = all[(i + reclaims_) % count];
      const std::uint64_t other = heldAt(at).load();
      if (other == 0 || ((other & kSharedBit) != 0) != ofReaders) continue;
      ++asked;
      living = at;
      livingHeld = other;
      // mutant: process-keeps-dead-records
      if (isLeftByTheDead(at, other) && replace(at, other)) return at;
    }
    reclaims_ += kQuestions;
    // Only the deaths of exclusive holders are reported, so the new record matters more than a reader's.
    // mutant: process-keeps-living-readers
    if (!shared && ofReaders && living != kNoPlace && replace(living, livingHeld)) return living;
  }
  return kNoPlace;
}

// Other readers may hold the byte of a dead reader. So a reader's record also counts as left by the dead if its slot is
// free.
bool ProcessPage::isLeftByTheDead(std::int32_t place, std::uint64_t held) {
  if (!file_->lockedElsewhere(held & ~kSharedBit)) return true;
  const std::int32_t slot = recordAt(place).slot;
  return (held & kSharedBit) != 0 && slot >= 0 && slot < kSlots && (slot == slot_ || !isAlive(slot));
}

void ProcessPage::leave(std::uint64_t byte, std::int32_t place) {
  if (place == kNoPlace) return;
  own_[static_cast<std::size_t>(place)] = false;
  const std::uint64_t held = heldAt(place).load();
  if ((held & ~kSharedBit) == byte) heldAt(place).store(0);
}

std::uint64_t ProcessPage::issueToken(const Order& keys, std::uint64_t least, Nanoseconds time) {
  const auto clock = static_cast<std::uint64_t>(header_.base() + time);
  std::uint64_t token = std::max(clock, least + 1);
  for (const auto& [byte, index] : keys) {
    const std::uint64_t last = page_->lastTokens[byte % kTokens].load();
    if (last < clock + kFarAhead) token = std::max(token, last + 1);
  }
  for (const auto& [byte, index] : keys) {
    Number& last = page_->lastTokens[byte % kTokens];
    std::uint64_t known = last.load();
    while ((known < token || known >= clock + kFarAhead) && !last.compare_exchange_weak(known, token)) {
    }
  }
  return token;
}

// ── inspection ──

std::string ProcessPage::titleOf(int slot) const {
  const char* const title = page_->slots[slot].title;
  return std::string(title, strnlen(title, sizeof page_->slots[slot].title));
}

std::optional<ProcessPage::Seen> ProcessPage::holderAt(std::int32_t place) {
  const std::uint64_t held = heldAt(place).load();
  const std::uint64_t byte = held & ~kSharedBit;
  if (held == 0 || !file_->lockedElsewhere(byte)) return std::nullopt;
  const Record& record = recordAt(place);
  const std::int32_t slot = record.slot;
  const bool known = slot >= 0 && slot < kSlots;
  if (slot_ == kNoSlot ? record.pid == processId() : slot == slot_) return std::nullopt;
  if (known && !isAlive(slot)) return std::nullopt;
  const std::uint32_t length = std::min<std::uint32_t>(record.length, sizeof record.key);
  Seen holder{byte,
              held != byte,
              false,
              record.pid,
              record.threadId,
              record.since,
              std::string(record.key, length),
              known ? titleOf(slot) : std::string()};
  // If the holder released the key while the record was read, the record may belong to another holder.
  if (heldAt(place).load() != held) return std::nullopt;
  return holder;
}

void ProcessPage::addHolders(std::uint64_t byte, std::vector<Seen>& seen) {
  forEachPlace(byte, [&](std::int32_t place) {
    if ((heldAt(place).load() & ~kSharedBit) != byte) return true;
    std::optional<Seen> holder = holderAt(place);
    if (holder && holder->byte == byte) seen.push_back(*std::move(holder));
    return true;
  });
}

std::vector<ProcessPage::Seen> ProcessPage::inspect() {
  std::vector<Seen> seen;
  for (std::int32_t place = 0; place < places(); ++place) {
    if (std::optional<Seen> holder = holderAt(place)) seen.push_back(*std::move(holder));
  }
  const double toWall = static_cast<double>(wallClock() - elapsed());
  std::array<std::uint64_t, kBitmapWords> waiting{};
  for (const Row& row : page_->rows) {
    for (std::size_t word = 0; word < kBitmapWords; ++word) waiting[word] |= row.waiting[word].load();
  }
  for (int slot = 0; slot < kSlots; ++slot) {
    if ((waiting[static_cast<std::size_t>(slot) / 64] & bitOf(slot)) == 0 || slot == slot_ || !isAlive(slot))
      continue;
    for (const Cells& cells : page_->waits[slot]) {
      for (std::uint64_t bits = cells.used.load(); bits != 0; bits &= bits - 1) {
        const int i = std::countr_zero(bits);
        const Cell& cell = cells.cells[i];
        const std::uint64_t since = cell.since.load();
        seen.push_back({cells.wanted[i].load(), (since & 1) != 0, true, page_->slots[slot].pid.load(),
                        cell.threadId.load(), (static_cast<double>(since >> 1) + toWall) / 1e6, std::string(),
                        titleOf(slot)});
      }
    }
  }
  return seen;
}

}  // namespace stripelock
