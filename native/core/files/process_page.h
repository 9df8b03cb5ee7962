// Memory at the start of a lock file that the processes share: their waits, turns, and records of holders. A record
// without a holder reports a death to the next holder.
//
// Only the kernel's byte-range locks decide which process holds a key. So garbage in the page, for example from a
// process that died, can cost time or cause wrong warnings, but it never breaks exclusion:
//  G1. An exclusive holder writes its record after the kernel has locked the byte, and clears the record before it
//      unlocks the byte. So if a process locks the byte exclusively and finds an exclusive record, the holder of that
//      record died.
//  G2. Each word has one writer at a time. The process of a slot writes the slot's cells, and the slot's bits in
//      bitmaps. The holder of a key gives turns. The holders of a key write its records. Other processes may clear the
//      words of dead processes: an exclusive holder clears the records of its key, and any process clears the records
//      of free keys. A process that frees a key clears all cells of the key's dead waiters. If the slot of a dead
//      waiter has a new process by then, that process loses its cells. A living process writes its cell again before
//      its next try.
//  G3. A turn counts for at most kLongestTurn after it was given or renewed. A turn counts only while its process
//      lives.
//  G4. The tokens of each key rise. New tokens follow the clock. If the clock goes back, they follow the last token in
//      the page.
//  G5. Before each check of a key, a waiting process stores in its cell how often it has been woken so far. The thread
//      that watches the key has read this count before, and sleeps only while the count is unchanged. If another thread
//      stores the count (ProcessFile::ceded()), it then wakes the watcher, which checks the key before it sleeps. So if
//      a process frees the byte, and then finds that the count and the cell differ, the waiting process will check the
//      key again, and needs no wake.
//
//  G6. A wake is not lost to a dead process. If no thread sleeps on the word of the process to wake, that process is
//      either awake or dead. The kernel reports this with the wake. Only then the waking process checks the life byte,
//      which takes a system call. If the waiter is dead, its cells are removed, and the next process is woken.
//
// A process may die between any two of its accesses. If a process dies after it freed a byte and before the wake, or
// after it was woken and before its next check, no process is woken. Then the next waiter finds the byte free when it
// polls (L3 in process_file.h). A process that dies counts as alive until the kernel has closed its file, which can
// take milliseconds. A process that died awake counts as awake for kStopped after its last try (G5); after that, its
// life byte is checked (G6). The cells of a dead process, even half-written ones, keep no key (G3). They stay until
// wakeNext() or a giveTurn() that is due removes them, or another process claims the slot. Until then, the dead
// process's wait may stop readers for up to kStopped.
//
// A process owns a slot while it has locked the byte of that slot. A process without a slot polls: it is not woken, and
// gets no turns.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/sync.h"
#include "core/files/lock_file.h"
#include "core/files/lock_file_header.h"
#include "core/table/mode.h"

namespace stripelock {

inline constexpr int kNoSlot = -1;

// How long a key is kept for the process that has the turn. A process that misses its turn is skipped until it tries
// again. Its next turn is twice as long, because its event loop may be busy, or it may wait for a processor.
// kLongestTurn bounds the time for which a key stays unused.
inline constexpr Nanoseconds kTurnFor = 10'000'000;
inline constexpr int kMostDoublings = 4;
inline constexpr Nanoseconds kLongestTurn = kTurnFor << kMostDoublings;

class ProcessPage {
 public:
  // Call it for a file that this process has just opened. Returns false and sets `error` on failure. `shape`: see
  // LockFileHeader::open().
  bool open(LockFile& file, const std::string& path, const std::string& title, const FileShape& shape,
            FileError& error);
  const LockFileHeader& header() const { return header_; }
  int slot() const { return slot_; }
  Word* wakeWord() const { return slot_ == kNoSlot ? nullptr : &page_->slots[slot_].wakeWord; }
  // Takes a free slot if this process has none. Returns true if it took one.
  bool claimSlot();
  // Restores the header and this process's slot. Call it if the file may have been truncated or damaged.
  void restore();

  // ── waiters ──

  struct Wait {
    bool shared = false;
    // On the clock of elapsed().
    Nanoseconds since = 0;
    std::int32_t threadId = 0;
  };
  // Records that this process waits for a key. Call it before each further try to lock the key. Has no effect if all
  // cells are in use: the process is then not woken for this key, and gets no turns.
  void enrol(std::uint64_t byte, const Wait& wait);
  // Removes the wait for the key.
  void withdraw(std::uint64_t byte);
  bool isEnrolled(std::uint64_t byte) const { return ownCell(byte) != nullptr; }

  // Another process that waits.
  struct Waiter {
    int slot = kNoSlot;
    bool shared = false;
    Nanoseconds since = 0;
  };
  // The other process that gets the next turn at a key: the one that has waited longest. Processes that missed a turn
  // come last.
  Waiter next(std::uint64_t byte) const;
  // Returns false only if no other process waits for the key. Cheaper than next().
  bool mayBeAwaited(std::uint64_t byte) const;
  // The other process that comes before an acquisition that began at `since`, or kNoSlot. A process comes first if the
  // key is kept for it and it cannot share the key with the acquisition. It also comes before a shared acquisition if
  // it has waited longer, for an exclusive hold, and has tried within kStopped.
  int goesBefore(std::uint64_t byte, bool shared, Nanoseconds since) const;
  // The number of other processes for which the key is kept. 0 if it is also kept for this process.
  std::uint32_t countKept(std::uint64_t byte) const;
  // Call it when a waiter of this process got the key. If no other process has waited longer, the barging period
  // restarts, because a hand-over between processes costs as much as many acquisitions within one.
  void servedWaiter(std::uint64_t byte, Nanoseconds since);
  // Gives the turn at the key to the process that is next, and keeps the key for that process. Other keys of the same
  // row are not kept. Removes dead waiters. Call it before the byte is freed. Returns false if no turn is due.
  bool giveTurn(std::uint64_t byte, Nanoseconds time);
  // Keeps the key for this process, which has locked the key's byte, or renews a turn from keepTurn(). Returns false if
  // this process has no slot.
  bool keepTurn(std::uint64_t byte, const Wait& wait);
  // Clears the turn of this process, which has the key now.
  void takeTurn(std::uint64_t byte);
  // Wakes the process that has the turn, or else the next one. If that process waits to share the key, wakes all
  // processes that do. Processes that are already awake are not woken (G5). Dead processes are removed (G6). Call it
  // after the byte was freed, or after this process withdrew its turn.
  void wakeNext(std::uint64_t byte);
  // Wakes the slot's process, which waits for the key, unless it is already awake (G5). If the process is dead, removes
  // its waits and returns false (G6). Call it after the byte was freed.
  bool wakeWaiter(int slot, std::uint64_t byte);
  // Wakes one process. Returns false if none of its threads slept.
  bool wake(int slot) { return WakeWord::wakeAt(page_->slots[slot].wakeWord); }

  // ── holders ──

  struct Holder {
    std::int32_t threadId = 0;
    // Milliseconds since 1970.
    double since = 0;
    std::string_view key;
  };
  // Records that this process holds the key. Returns true if a record reports the death of an exclusive holder. Sets
  // `place` to the place of the new record, or to kNoPlace if there is no room. In that case, the death of this holder
  // would not be reported. To make room, hold() removes the record of a dead holder whose key is free. It removes
  // records of dead readers first. An exclusive holder may also replace the record of a living reader, because only
  // inspect() needs a reader's record.
  bool hold(std::uint64_t byte, bool shared, const Holder& holder, std::int32_t& place);
  bool isAbandoned(std::uint64_t byte) const { return placeOf(byte) != kNoPlace; }
  // The place of the record of an exclusive holder.
  std::int32_t placeOf(std::uint64_t byte) const;
  void leave(std::uint64_t byte, std::int32_t place);
  static constexpr std::int32_t kNoPlace = -1;
  // The number of records in the page for the lock file, and for each of its parts.
  static constexpr std::int32_t kPlacesPerFile = 8192;
  // The two buckets that may contain the record of a key.
  static std::array<std::uint32_t, 2> bucketsOf(std::uint64_t byte, std::uint32_t files);

  // The byte of each key of an acquisition, and the key's index in the acquisition.
  using Order = std::vector<std::pair<std::uint64_t, std::uint32_t>>;
  // Returns a token above `least` and above all tokens of these keys. `time`: on the clock of elapsed(), read after the
  // last byte of these keys was locked.
  std::uint64_t issueToken(const Order& keys, std::uint64_t least, Nanoseconds time);

  // ── inspection ──

  struct Seen {
    std::uint64_t byte;
    bool shared;
    bool waits;
    std::uint32_t pid;
    std::int32_t threadId;
    double since;
    // Empty if the record does not contain it.
    std::string key;
    std::string title;
    // Whether the holder or waiter belongs to this process.
    bool here = false;
    // The note of a traced holder of this process. Empty for all others.
    std::string note;
  };
  // The holders and waiters of other processes. Call it after a check of the file.
  std::vector<Seen> inspect();
  // Adds the other processes that hold the key of this byte. Call it after a check of the file.
  void addHolders(std::uint64_t byte, std::vector<Seen>& seen);

 private:
  using Number = std::atomic<std::uint64_t>;
  static_assert(Number::is_always_lock_free);

  static constexpr std::uint32_t kRows = 256;
  static constexpr std::size_t kBitmapWords = kSlots / 64;
  // The number of keys of each group that a process can wait for at once.
  static constexpr int kCells = 64;
  static constexpr std::uint32_t kGroups = 4;
  static constexpr std::uint32_t kTokens = 256;
  static constexpr std::int32_t kPerBucket = 8;
  static constexpr std::uint32_t kBucketsPerFile = kPlacesPerFile / kPerBucket;

  struct Slot {
    Word wakeWord;
    Word pid;
    char title[120];
  };
  // All keys with the same rowOf() share a row.
  struct alignas(32) Row {
    // A bit for each slot: set if the slot's process waits for a key of this row.
    Number waiting[kBitmapWords];
    // The time at which the longest waiter last got a key, and a part of that key's byte.
    Number servedAt;
  };
  struct Cell {
    Number since;
    std::atomic<std::int32_t> threadId;
    // How often the process had been woken before its last try (G5).
    Word wakesSeen;
    // The time at which the process last tried to lock the key.
    Number triedAt;
    // The end of the time for which the key is kept for this process, or kPassed.
    Number turn;
    // The number of turns that the process has missed since it last had the key.
    Number missed;
  };
  // The waits of one process for the keys of one group.
  struct alignas(4096) Cells {
    // A bit for each cell in use.
    Number used;
    Number wanted[kCells];
    Cell cells[kCells];
  };
  struct alignas(64) Bucket {
    // For each held key: its byte, and whether it is shared.
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
  // Disk space is reserved for the first kReserved bytes when the file is opened. A process reserves each later page
  // before it writes there.
  struct Page {
    char header[LockFileHeader::kBytes];
    Slot slots[kSlots];
    Row rows[kRows];
    // The last token of a key is in the entry with the index `byte % kTokens`. Several keys share an entry.
    Number lastTokens[kTokens];
    Cells waits[kSlots][kGroups];
    // Then the buckets and the records, for each file.
  };
  static constexpr std::size_t kReserved = offsetof(Page, waits);
  static_assert(sizeof(Slot) == 128 && sizeof(Row) == 32 && sizeof(Cell) == 40 && sizeof(Cells) == 4096);
  static_assert(sizeof(Bucket) == 64 && sizeof(Record) == 128);
  static constexpr std::size_t kPerFile =
      kBucketsPerFile * sizeof(Bucket) + std::size_t{kPlacesPerFile} * sizeof(Record);

  static bool isOwnSize(std::uint64_t size);
  // Reads the tokens from the file, because it is not mapped yet.
  static std::uint64_t highestToken(LockFile& file);
  static std::uint32_t rowOf(std::uint64_t byte) { return static_cast<std::uint32_t>(byte % kRows); }
  Row& rowAt(std::uint64_t byte) const { return page_->rows[rowOf(byte)]; }
  Cells& cellsOf(int slot, std::uint64_t byte) const { return page_->waits[slot][rowOf(byte) % kGroups]; }
  // The cell in which the process of this slot has recorded its wait for the key; nullptr if there is none.
  Cell* cellOf(int slot, std::uint64_t byte) const;
  Cell* ownCell(std::uint64_t byte) const { return slot_ == kNoSlot ? nullptr : cellOf(slot_, byte); }
  bool isKeptFor(int slot, const Cell& cell, std::uint64_t byte) const;
  bool hasOwnTurn(std::uint64_t byte) const;
  // Whether the process of this cell has tried to lock the key within kStopped.
  static bool hasTried(const Cell& cell);
  // Removes all waits of a dead process.
  void forget(int slot);
  void writeSlot();

  // The holder whose record is at this place, if it is in another process that is alive.
  std::optional<Seen> holderAt(std::int32_t place);
  std::string titleOf(int slot) const;
  std::int32_t places() const { return static_cast<std::int32_t>(header_.files()) * kPlacesPerFile; }
  Bucket* buckets() const { return static_cast<Bucket*>(static_cast<void*>(page_ + 1)); }
  Record& recordAt(std::int32_t place) const {
    return static_cast<Record*>(static_cast<void*>(buckets() + places() / kPerBucket))[place];
  }
  // Visits the places where the key may have records, until `visit` returns false.
  template <typename Visit>
  void forEachPlace(std::uint64_t byte, Visit visit) const;
  // `held`: the new entry in a bucket.
  std::int32_t claimPlace(std::uint64_t held);
  std::int32_t reclaimPlace(std::uint64_t held);
  bool isLeftByTheDead(std::int32_t place, std::uint64_t held);
  Number& heldAt(std::int32_t place) const { return buckets()[place / kPerBucket].held[place % kPerBucket]; }
  template <typename Visit>
  void forEachWaiting(std::uint64_t byte, Visit visit) const;
  // Among the other processes that wait for the key, the one with the lowest rank. If several have this rank, the one
  // that has waited longest.
  template <typename Rank>
  Waiter first(std::uint64_t byte, Rank rankOf) const;
  bool isAlive(int slot) const {
    return file_->lockedElsewhere(kLifeBytes + static_cast<std::uint64_t>(slot));
  }

  LockFile* file_ = nullptr;
  LockFileHeader header_;
  Page* page_ = nullptr;
  int slot_ = kNoSlot;
  std::string title_;
  // For each place: whether this process wrote the record.
  std::vector<bool> own_;
  // The offset at which the next search for dead holders starts.
  std::uint32_t reclaims_ = 0;
};

}  // namespace stripelock
