#include "core/process_page.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/hash.h"
#include "core/platform.h"

namespace stripelock {

namespace {

constexpr std::array<char, 16> kMark = {'s', 't', 'r', 'i', 'p', 'e', 'l', 'o',
                                        'c', 'k', ' ', 'f', 'i', 'l', 'e', '\n'};
// What a cell says that waits for several keys of its row.
constexpr std::uint64_t kSeveral = ~std::uint64_t{0};
constexpr std::uint64_t kSharedBit = std::uint64_t{1} << 63;
// A token in a bucket that is this far ahead of the clock is not one.
constexpr std::uint64_t kFarAhead = std::uint64_t{1} << 55;
constexpr Nanoseconds kMakingFor = 5'000'000'000;
// The process that has waited longest tries every 10 ms. One that has not for this long is stopped, or dead.
constexpr Nanoseconds kStopped = 60 * kMillisecond;

std::uint64_t bitOf(int slot) { return std::uint64_t{1} << (slot % 64); }

template <std::size_t size>
void copyText(std::string_view text, char (&to)[size]) {
  std::memset(to, 0, size);
  std::memcpy(to, text.data(), std::min(text.size(), size - 1));
}

// A turn: the slot, 16 bits of the key, and when it ends, in milliseconds.
std::uint64_t turnOf(int slot, std::uint64_t byte, Nanoseconds end) {
  const auto until = static_cast<std::uint32_t>(end / kMillisecond);
  return (static_cast<std::uint64_t>(slot + 1) << 48) | ((byte & 0xffff) << 32) | until;
}
int slotOf(std::uint64_t turn) { return static_cast<int>(turn >> 48) - 1; }
bool isFor(std::uint64_t turn, std::uint64_t byte) {
  return turn != 0 && ((turn >> 32) & 0xffff) == (byte & 0xffff);
}
// Whatever the word says, it counts for no longer than kTurnFor (keeps G3).
bool counts(std::uint64_t turn, Nanoseconds time) {
  const std::uint32_t left =
      static_cast<std::uint32_t>(turn) - static_cast<std::uint32_t>(time / kMillisecond);
  // mutant: process-turn-without-end
  return left > 0 && left <= kTurnFor / kMillisecond;
}

}  // namespace

std::uint64_t byteOfKey(std::string_view key) {
  // The last byte of the largest file would be all that come after it, too.
  return kKeyBytes | std::min(hashBytes(key.data(), key.size()) >> 2, kKeyBytes - 2);
}

// ── opening ──

bool ProcessPage::open(LockFile& file, const std::string& title, std::uint32_t files, FileError& error) {
  file_ = &file;
  const std::string boot = bootId();
  Head head{};
  if (!readHead(head, error)) return false;
  const bool made = head.version != 0 && !boot.empty() && boot == head.boot;
  if (!made && (!make(boot, files, error) || !readHead(head, error))) return false;
  if (files != 0 && files != head.files) {
    error = {FileFault::kFiles, static_cast<int>(head.files)};
    return false;
  }
  files_ = head.files;
  if (!file.grow(sizeof(Page), error.number)) {
    error.fault = FileFault::kOpen;
    return false;
  }
  page_ = static_cast<Page*>(file.map(sizeof(Page), error.number));
  if (!page_) {
    error.fault = FileFault::kOpen;
    return false;
  }
  base_ = page_->head.base;
  claimSlot(title);
  return true;
}

// All zero if the file is new.
bool ProcessPage::readHead(Head& head, FileError& error) {
  head = {};
  const std::uint64_t size = file_->size();
  if (size == 0) return true;
  if (size < sizeof head || !file_->read(&head, sizeof head)) {
    error = {FileFault::kForeign, 0};
    return false;
  }
  // Whoever made it ended before the head was written.
  const bool empty = std::memcmp(&head, Head{}.mark, sizeof head.mark) == 0 && head.version == 0;
  if (empty && size == sizeof(Page)) {
    head = {};
    return true;
  }
  if (std::memcmp(head.mark, kMark.data(), kMark.size()) != 0) {
    error = {FileFault::kForeign, 0};
    return false;
  }
  if (head.version != kVersion) {
    error = {FileFault::kVersion, 0};
    return false;
  }
  if (head.files == 0 || head.files > kMostSpread || head.filesTurned != ~head.files) {
    error = {FileFault::kForeign, 0};
    return false;
  }
  head.boot[sizeof head.boot - 1] = '\0';
  return true;
}

// The first process after a start of the machine does it. Tokens go on above all that the file has seen.
bool ProcessPage::make(const std::string& boot, std::uint32_t files, FileError& error) {
  const Nanoseconds end = now() + kMakingFor;
  int number = 0;
  for (LockFile::Answer answer;
       (answer = file_->lock(kMakingByte, false, number)) != LockFile::Answer::kTaken;) {
    if (answer == LockFile::Answer::kFailed || now() > end) {
      error = {answer == LockFile::Answer::kFailed ? FileFault::kFileSystem : FileFault::kBusy, number};
      return false;
    }
    Parker().park(Deadline::at(now() + kMillisecond));
  }
  Head head{};
  bool done = readHead(head, error);
  if (done && (head.version == 0 || boot.empty() || boot != head.boot)) {
    done = file_->grow(sizeof(Page), error.number);
    if (done) {
      auto* const page = static_cast<Page*>(file_->map(sizeof(Page), error.number));
      done = page != nullptr;
      if (done) {
        std::uint64_t last = 0;
        for (Bucket& bucket : page->buckets) {
          const std::uint64_t token = bucket.lastToken.load();
          if (token < static_cast<std::uint64_t>(wallClock()) + kFarAhead) last = std::max(last, token);
        }
        head.base =
            std::max({head.base, wallClock() - elapsed(), static_cast<std::int64_t>(last) - elapsed()});
        std::copy(kMark.begin(), kMark.end(), head.mark);
        if (head.version == 0) head.files = std::max(files, 1U);
        head.filesTurned = ~head.files;
        head.version = kVersion;
        copyText(boot, head.boot);
        done = file_->write(&head, sizeof head);
        file_->flush();
      }
    }
    if (!done) error.fault = FileFault::kOpen;
  }
  file_->unlock(kMakingByte);
  return done;
}

void ProcessPage::claimSlot(const std::string& title) {
  int number = 0;
  for (int slot = 0; slot < kSlots; ++slot) {
    if (file_->lock(kLifeBytes + static_cast<std::uint64_t>(slot), false, number) != LockFile::Answer::kTaken)
      continue;
    slot_ = slot;
    page_->slots[slot].pid.store(processId());
    copyText(title, page_->slots[slot].title);
    // What the last one with this slot waited for. What it held says that it died.
    for (Row& row : page_->rows) forget(row, slot);
    return;
  }
}

void ProcessPage::forget(Row& row, int slot) {
  const std::uint64_t bit = bitOf(slot);
  Number& waiting = row.waiting[slot / 64];
  Number& passed = row.passed[slot / 64];
  if ((waiting.load() & bit) != 0) {
    row.cells[slot].wanted.store(0);
    waiting.fetch_and(~bit);
  }
  if ((passed.load() & bit) != 0) passed.fetch_and(~bit);
}

// ── who waits ──

void ProcessPage::enrol(std::uint32_t row, const Wait& wait) {
  if (slot_ == kNoSlot) return;
  Row& at = page_->rows[row];
  Cell& cell = at.cells[slot_];
  if (wait.byte == 0) {
    forget(at, slot_);
    return;
  }
  cell.since.store((static_cast<std::uint64_t>(wait.since) << 1) | (wait.shared ? 1 : 0));
  cell.threadId.store(static_cast<std::uint64_t>(wait.threadId));
  cell.triedAt.store(static_cast<std::uint64_t>(elapsed()));
  cell.wanted.store(wait.several ? kSeveral : wait.byte);
  // The try that follows either gets the byte, or comes before the call that frees it. The kernel orders the two calls, so
  // whoever frees it sees this afterwards, in wakeNext().
  at.waiting[slot_ / 64].fetch_or(bitOf(slot_));
}

void ProcessPage::stir(std::uint64_t byte) {
  if (slot_ == kNoSlot) return;
  Row& row = rowAt(byte);
  row.cells[slot_].triedAt.store(static_cast<std::uint64_t>(elapsed()));
  Number& passed = row.passed[slot_ / 64];
  if ((passed.load() & bitOf(slot_)) != 0) passed.fetch_and(~bitOf(slot_));
}

template <typename Visit>
void ProcessPage::forEachWaiting(std::uint64_t byte, Visit visit) const {
  const Row& row = rowAt(byte);
  for (int word = 0; word < static_cast<int>(kBitmapWords); ++word) {
    for (std::uint64_t bits = row.waiting[word].load(); bits != 0; bits &= bits - 1) {
      const int slot = 64 * word + std::countr_zero(bits);
      const std::uint64_t wanted = row.cells[slot].wanted.load();
      if (slot == slot_ || (wanted != byte && wanted != kSeveral)) continue;
      const std::uint64_t since = row.cells[slot].since.load();
      const bool passed = (row.passed[word].load() & bitOf(slot)) != 0;
      visit(slot, static_cast<Nanoseconds>(since >> 1), (since & 1) != 0, passed);
    }
  }
}

ProcessPage::Turn ProcessPage::next(std::uint64_t byte) {
  Turn best;
  bool bestPassed = true;
  forEachWaiting(byte, [&](int slot, Nanoseconds since, bool shared, bool passed) {
    if (best.slot != kNoSlot &&
        (passed ? !bestPassed || since >= best.since : !bestPassed && since >= best.since))
      return;
    best = {slot, shared, since};
    bestPassed = passed;
  });
  return best;
}

bool ProcessPage::isAwaited(std::uint64_t byte) const {
  bool awaited = false;
  forEachWaiting(byte, [&](int, Nanoseconds, bool, bool) { awaited = true; });
  return awaited;
}

bool ProcessPage::isAwaitedBefore(std::uint64_t byte, Nanoseconds since) const {
  bool awaited = false;
  forEachWaiting(byte, [&](int slot, Nanoseconds waits, bool shared, bool) {
    if (shared || waits >= since) return;
    const auto tried = static_cast<Nanoseconds>(rowAt(byte).cells[slot].triedAt.load());
    const Nanoseconds idle = elapsed() - tried;
    if (idle >= 0 && idle < kStopped) awaited = true;
  });
  return awaited;
}

bool ProcessPage::isDue(std::uint64_t byte, Nanoseconds since, Nanoseconds time) const {
  const auto served = static_cast<Nanoseconds>(rowAt(byte).servedAt.load());
  return time - (served <= time ? std::max(since, served) : since) >= kBargeFor;
}

void ProcessPage::servedWaiter(std::uint64_t byte, Nanoseconds since) {
  const Turn turn = next(byte);
  if (turn.slot == kNoSlot || since <= turn.since)
    rowAt(byte).servedAt.store(static_cast<std::uint64_t>(elapsed()));
}

void ProcessPage::giveTurn(std::uint64_t byte, Nanoseconds time) {
  Row& row = rowAt(byte);
  for (Turn turn = next(byte); turn.slot != kNoSlot && isDue(byte, turn.since, time); turn = next(byte)) {
    Number& passed = row.passed[turn.slot / 64];
    if ((passed.load() & bitOf(turn.slot)) != 0) return;
    if (!isAlive(turn.slot)) {
      forget(row, turn.slot);
      continue;
    }
    const std::uint64_t last = row.turn.load();
    if (isFor(last, byte) && slotOf(last) == turn.slot && !counts(last, time)) {
      // It had its chance, and is stopped, or far behind.
      passed.fetch_or(bitOf(turn.slot));
      row.turn.store(0);
      continue;
    }
    row.turn.store(turnOf(turn.slot, byte, time + kTurnFor));
    return;
  }
}

bool ProcessPage::isKept(std::uint64_t byte) const {
  const std::uint64_t turn = rowAt(byte).turn.load();
  return isFor(turn, byte) && slotOf(turn) != slot_ && counts(turn, elapsed());
}

void ProcessPage::takeTurn(std::uint64_t byte) {
  Number& turn = rowAt(byte).turn;
  const std::uint64_t last = turn.load();
  if (isFor(last, byte) && slotOf(last) == slot_) turn.store(0);
}

void ProcessPage::wakeNext(std::uint64_t byte) {
  const Row& row = rowAt(byte);
  const std::uint64_t turn = row.turn.load();
  const Turn first = isKept(byte) ? Turn{slotOf(turn) % kSlots} : next(byte);
  if (first.slot == kNoSlot) return;
  Bell::ringAt(page_->slots[first.slot].bell);
  if ((row.cells[first.slot].since.load() & 1) == 0) return;
  forEachWaiting(byte, [&](int slot, Nanoseconds, bool shared, bool) {
    if (shared && slot != first.slot) Bell::ringAt(page_->slots[slot].bell);
  });
}

// ── who holds ──

template <typename Visit>
void ProcessPage::forEachPlace(std::uint64_t byte, Visit visit) const {
  // Two buckets, which are neighbours in memory: one is full only where thousands of keys are held.
  const auto first = static_cast<std::uint32_t>(byte % kBuckets);
  for (const std::uint32_t bucket : {first, (first + 1) % kBuckets}) {
    for (std::int32_t i = 0; i < kPerBucket; ++i) {
      if (!visit(static_cast<std::int32_t>(bucket) * kPerBucket + i)) return;
    }
  }
}

std::int32_t ProcessPage::find(std::uint64_t byte, bool shared) const {
  const std::uint64_t sought = shared ? byte | kSharedBit : byte;
  std::int32_t found = kNoPlace;
  forEachPlace(byte, [&](std::int32_t place) {
    if (heldAt(place).load() == sought) found = place;
    return found == kNoPlace;
  });
  return found;
}

bool ProcessPage::hold(std::uint64_t byte, bool shared, const Holder& holder, std::int32_t& place) {
  bool abandoned = false;
  std::int32_t free = kNoPlace;
  forEachPlace(byte, [&](std::int32_t at) {
    const std::uint64_t held = heldAt(at).load();
    // mutant: process-overlooks-the-dead
    if (held == byte) abandoned = true;
    // What is left of dead holders: an exclusive one is alone (keeps G1, G2).
    if (!shared && (held == byte || held == (byte | kSharedBit))) heldAt(at).store(0);
    if (free == kNoPlace && heldAt(at).load() == 0) free = at;
    return true;
  });
  place = free;
  if (free == kNoPlace) return abandoned;
  std::uint64_t none = 0;
  if (!heldAt(free).compare_exchange_strong(none, shared ? byte | kSharedBit : byte)) {
    // Another key's holder was there first.
    place = kNoPlace;
    forEachPlace(byte, [&](std::int32_t at) {
      none = 0;
      if (heldAt(at).compare_exchange_strong(none, shared ? byte | kSharedBit : byte)) place = at;
      return place == kNoPlace;
    });
    if (place == kNoPlace) return abandoned;
  }
  Record& record = page_->records[place];
  record.pid = processId();
  record.slot = slot_;
  record.threadId = holder.threadId;
  record.since = holder.since;
  // A key that was cut would look like another one.
  record.length = holder.key.size() <= sizeof record.key ? static_cast<std::uint32_t>(holder.key.size()) : 0;
  std::memcpy(record.key, holder.key.data(), record.length);
  return abandoned;
}

void ProcessPage::leave(std::uint64_t byte, std::int32_t place) {
  if (place == kNoPlace) return;
  const std::uint64_t held = heldAt(place).load();
  if (held == byte || held == (byte | kSharedBit)) heldAt(place).store(0);
}

std::uint64_t ProcessPage::issueToken(const std::uint64_t* bytes, std::size_t count, std::uint64_t least) {
  const auto clock = static_cast<std::uint64_t>(base_ + elapsed());
  std::uint64_t token = std::max(clock, least + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t last = page_->buckets[bytes[i] % kBuckets].lastToken.load();
    if (last < clock + kFarAhead) token = std::max(token, last + 1);
  }
  for (std::size_t i = 0; i < count; ++i) {
    Number& last = page_->buckets[bytes[i] % kBuckets].lastToken;
    std::uint64_t known = last.load();
    while ((known < token || known >= clock + kFarAhead) && !last.compare_exchange_weak(known, token)) {
    }
  }
  return token;
}

// ── for people ──

std::vector<ProcessPage::Seen> ProcessPage::inspect() {
  std::vector<Seen> seen;
  const auto titleOf = [&](int slot) {
    const char* const title = page_->slots[slot].title;
    return std::string(title, strnlen(title, sizeof page_->slots[slot].title));
  };
  for (std::int32_t place = 0; place < kPlaces; ++place) {
    const std::uint64_t held = heldAt(place).load();
    const std::uint64_t byte = held & ~kSharedBit;
    if (held == 0 || !file_->lockedElsewhere(byte)) continue;
    const Record& record = page_->records[place];
    const std::int32_t slot = record.slot;
    const bool known = slot >= 0 && slot < kSlots;
    if (slot_ == kNoSlot ? record.pid == processId() : slot == slot_) continue;
    if (known && !isAlive(slot)) continue;
    const std::uint32_t length = std::min<std::uint32_t>(record.length, sizeof record.key);
    seen.push_back({byte, held != byte, false, record.pid, record.threadId, record.since,
                    std::string(record.key, length), known ? titleOf(slot) : std::string()});
    // It was released meanwhile, and another one may be there.
    if (heldAt(place).load() != held) seen.pop_back();
  }
  const double toWall = static_cast<double>(wallClock() - elapsed());
  for (const Row& row : page_->rows) {
    for (int slot = 0; slot < kSlots; ++slot) {
      if ((row.waiting[slot / 64].load() & bitOf(slot)) == 0 || slot == slot_ || !isAlive(slot)) continue;
      const std::uint64_t wanted = row.cells[slot].wanted.load();
      const std::uint64_t since = row.cells[slot].since.load();
      if (wanted == 0) continue;
      seen.push_back({wanted == kSeveral ? 0 : wanted, (since & 1) != 0, true, page_->slots[slot].pid.load(),
                      static_cast<std::int32_t>(row.cells[slot].threadId.load()),
                      (static_cast<double>(since >> 1) + toWall) / 1e6, std::string(), titleOf(slot)});
    }
  }
  return seen;
}

}  // namespace stripelock
