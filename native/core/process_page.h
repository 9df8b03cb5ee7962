// What the processes that lock bytes of one file tell each other, in memory at the start of that file: who waits and since
// when, whose turn it is, and who holds, so that the next holder learns of a death.
//
// It never decides who holds a key: the kernel does, by the locks of bytes. So whatever is written here by a process that
// died, or by somebody else, costs time and warnings, and not exclusion:
//  G1. A record of an exclusive holder is written after the kernel gave it the byte, and cleared before it frees that. So
//      whoever holds the byte exclusively, and finds such a record, knows that its holder died.
//  G2. Each word has one writer at a time: the cells of a slot its process, except for turns, which a holder of the key
//      gives; records of a key its holders; and a bit of a bitmap the process of its slot. Others may clear what the dead
//      left: an exclusive holder in the records of its key, any process in records whose key is free, and one that frees a
//      key in the cells of processes that waited for it. A living process writes its cell again before its next try.
//  G3. A turn that is given to a process counts for kTurnFor at most.
//  G4. Tokens rise for each key: the clock does, and the page has the last token in case the clock does not.
//
// A process has a slot if it got the byte of one. Without a slot it is not woken and gets no turns; it tries now and then.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/lock_file.h"
#include "core/lock_file_header.h"
#include "core/mode.h"
#include "core/sync.h"

namespace stripelock {

inline constexpr int kNoSlot = -1;

// Newcomers may pass others for this time, from when those began to wait, or from when one of them last got the key.
inline constexpr Nanoseconds kBargeFor = 1'000'000;
// How long a key is kept for the process whose turn it is. One that does not take it is passed over until it tries again.
inline constexpr Nanoseconds kTurnFor = 10'000'000;

class ProcessPage {
 public:
  // Of a file that this process has just opened. False: `error` says why it cannot be used. `files`: see
  // LockFileHeader::open().
  bool open(LockFile& file, const std::string& path, const std::string& title, std::uint32_t files,
            FileError& error);
  std::uint32_t files() const { return header_.files(); }
  std::uint64_t byteOf(std::string_view key) const { return header_.byteOf(key); }
  int slot() const { return slot_; }
  Word* bell() const { return slot_ == kNoSlot ? nullptr : &page_->slots[slot_].bell; }
  // Takes a slot if this process has none, and one is free. True if it took one now.
  bool claimSlot();
  // Writes again what only this process knows, if the file was cut or damaged: the header, and who has the slot.
  void restore();

  // ── who waits ──

  struct Wait {
    bool shared = false;
    // On the clock of elapsed().
    Nanoseconds since = 0;
    std::int32_t threadId = 0;
  };
  // This process waits for a key. Call it before each try to lock the key once more. Without effect if the process waits for so
  // many keys already that the page has no room: it is not woken for this one and gets no turns, as without a slot.
  void enrol(std::uint64_t byte, const Wait& wait);
  // It waits for the key no more.
  void withdraw(std::uint64_t byte);
  bool isEnrolled(std::uint64_t byte) const { return slot_ != kNoSlot && cellOf(slot_, byte) != nullptr; }

  struct Turn {
    int slot = kNoSlot;
    bool shared = false;
    Nanoseconds since = 0;
  };
  // The process whose turn it is among those that wait for a key: the oldest that does not seem to be stopped. Only other
  // processes.
  Turn next(std::uint64_t byte);
  // Whether others wait for the key.
  bool isAwaited(std::uint64_t byte) const;
  // The other process that goes before an acquisition that began then, or kNoSlot: the key is kept for it, and the two cannot
  // share, or it has waited longer to have the key alone. One that has not tried for a while does not count: it may be stopped.
  int goesBefore(std::uint64_t byte, bool shared, Nanoseconds since) const;
  // Whether one that began to wait then is passed by nobody any more.
  bool isDue(std::uint64_t byte, Nanoseconds since, Nanoseconds time) const;
  // A waiter of this process got the key. If no other process has waited longer, the time in which others may be passed
  // restarts, because a hand-over to another process costs as much as many acquisitions of one.
  void servedWaiter(std::uint64_t byte, Nanoseconds since);
  // Keeps the key for that one, and no other key, before the byte is freed. Removes waiters that turn out to be dead.
  void giveTurn(std::uint64_t byte, Nanoseconds time);
  // This process has it now.
  void takeTurn(std::uint64_t byte);
  // Wakes the process whose turn it is, or all that may share it. After the byte was freed.
  void wakeNext(std::uint64_t byte);
  // Wakes one process.
  void wake(int slot) { Bell::ringAt(page_->slots[slot].bell); }

  // ── who holds ──

  struct Holder {
    std::int32_t threadId = 0;
    // Milliseconds since 1970.
    double since = 0;
    std::string_view key;
  };
  // Records that this process holds the key. True if a record says that an exclusive holder died. `place` is where the
  // record is, or kNoPlace if there was no room: then nobody will learn of this holder's death. Room is made by removing
  // records of the dead whose keys are free, those of readers first; an exclusive holder may take the room of a living
  // reader too, whose record is only for inspect().
  bool hold(std::uint64_t byte, bool shared, const Holder& holder, std::int32_t& place);
  bool isAbandoned(std::uint64_t byte) const { return find(byte, false) != kNoPlace; }
  void leave(std::uint64_t byte, std::int32_t place);
  static constexpr std::int32_t kNoPlace = -1;
  // Records in a file, for each file that has locks of keys.
  static constexpr std::int32_t kPlacesPerFile = 8192;
  // The record of a key is in one of two buckets of them.
  static std::array<std::uint32_t, 2> bucketsOf(std::uint64_t byte, std::uint32_t files);

  // Above `least` and above all tokens of these keys.
  std::uint64_t issueToken(const std::uint64_t* bytes, std::size_t count, std::uint64_t least);

  // ── for people ──

  struct Seen {
    std::uint64_t byte;
    bool shared;
    bool waits;
    std::uint32_t pid;
    std::int32_t threadId;
    double since;
    // Empty if nobody said it.
    std::string key;
    std::string title;
  };
  // What other processes hold and wait for. The caller has looked at the file.
  std::vector<Seen> inspect();

 private:
  using Number = std::atomic<std::uint64_t>;
  static_assert(Number::is_always_lock_free);

  static constexpr std::uint32_t kRows = 256;
  static constexpr std::size_t kBitmapWords = kSlots / 64;
  // A process can wait for this many keys at once in each group of keys.
  static constexpr int kCells = 64;
  static constexpr std::uint32_t kGroups = 4;
  static constexpr std::uint32_t kTokens = 256;
  static constexpr std::int32_t kPerBucket = 8;
  static constexpr std::uint32_t kBucketsPerFile = kPlacesPerFile / kPerBucket;

  struct Slot {
    Word bell;
    Word pid;
    char title[120];
  };
  // The keys whose hashes lead here.
  struct alignas(32) Row {
    // Slots whose processes wait for such a key.
    Number waiting[kBitmapWords];
    // When the process that had waited longest got a key, and a part of that key's number.
    Number servedAt;
    Number unused;
  };
  struct Cell {
    Number since;
    Number threadId;
    // When it tried last.
    Number triedAt;
    // Until when the key is kept for this process, or that it did not use its turn.
    Number turn;
  };
  // The keys of a group that a process waits for.
  struct alignas(4096) Cells {
    // A bit for each cell in use.
    Number used;
    Number wanted[kCells];
    Cell cells[kCells];
  };
  struct alignas(64) Bucket {
    // The byte of a key that is held, and whether it is shared.
    Number held[kPerBucket];
  };
  struct Record {
    std::uint32_t pid;
    std::int32_t slot;
    std::int32_t threadId;
    std::uint32_t length;
    double since;
    char key[104];
  };
  // The disk has room for the first part in any case. For the rest, each process reserves the pages that it is about to write.
  struct Page {
    char header[LockFileHeader::kBytes];
    Slot slots[kSlots];
    Row rows[kRows];
    // The last token of keys whose hashes lead here.
    Number lastTokens[kTokens];
    Cells waits[kSlots][kGroups];
    // Then the buckets and the records, for each file.
  };
  static constexpr std::size_t kReserved = offsetof(Page, waits);
  static_assert(sizeof(Slot) == 128 && sizeof(Row) == 32 && sizeof(Cell) == 32 && sizeof(Cells) == 4096);
  static_assert(sizeof(Bucket) == 64 && sizeof(Record) == 128);
  static constexpr std::size_t kPerFile =
      kBucketsPerFile * sizeof(Bucket) + std::size_t{kPlacesPerFile} * sizeof(Record);

  static bool isOwnSize(std::uint64_t size);
  std::uint64_t highestToken();
  static std::uint32_t rowOf(std::uint64_t byte) { return static_cast<std::uint32_t>(byte % kRows); }
  Row& rowAt(std::uint64_t byte) const { return page_->rows[rowOf(byte)]; }
  Cells& cellsOf(int slot, std::uint64_t byte) const { return page_->waits[slot][rowOf(byte) % kGroups]; }
  // The cell that says that the process of the slot waits for the key, or nullptr.
  Cell* cellOf(int slot, std::uint64_t byte) const;
  void newCell(std::uint64_t byte, const Wait& wait);
  // The other process that the key is kept for, or kNoSlot. `shared`: one that can share the key does not count.
  int keptFor(std::uint64_t byte, bool shared) const;
  void forget(int slot, std::uint64_t byte);
  void writeSlot();

  std::int32_t places() const { return static_cast<std::int32_t>(files()) * kPlacesPerFile; }
  Bucket* buckets() const { return static_cast<Bucket*>(static_cast<void*>(page_ + 1)); }
  Record& recordAt(std::int32_t place) const {
    return static_cast<Record*>(static_cast<void*>(buckets() + places() / kPerBucket))[place];
  }
  std::int32_t find(std::uint64_t byte, bool shared) const;
  // Visits the places where the key may have records, until `visit` returns false.
  template <typename Visit>
  void forEachPlace(std::uint64_t byte, Visit visit) const;
  std::int32_t claimPlace(std::uint64_t byte, bool shared);
  std::int32_t reclaimPlace(std::uint64_t byte, bool shared);
  bool isLeftByTheDead(std::int32_t place, std::uint64_t held);
  Number& heldAt(std::int32_t place) const { return buckets()[place / kPerBucket].held[place % kPerBucket]; }
  template <typename Visit>
  void forEachWaiting(std::uint64_t byte, Visit visit) const;
  bool isAlive(int slot) { return file_->lockedElsewhere(kLifeBytes + static_cast<std::uint64_t>(slot)); }

  LockFile* file_ = nullptr;
  LockFileHeader header_;
  Page* page_ = nullptr;
  int slot_ = kNoSlot;
  std::string title_;
  // For each place: whether the record is this process's.
  std::vector<bool> own_;
  // Where to look for the dead next.
  std::uint32_t reclaims_ = 0;
};

}  // namespace stripelock
