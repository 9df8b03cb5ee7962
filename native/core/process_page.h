// What the processes that lock bytes of one file tell each other, in memory at the start of that file: who waits and since
// when, whose turn it is, and who holds, so that the next holder learns of a death.
//
// It never decides who holds a key: the kernel does, by the locks of bytes. So whatever is written here by a process that
// died, or by somebody else, costs time and warnings, and not exclusion:
//  G1. A record of an exclusive holder is written after the kernel gave it the byte, and cleared before it frees that. So
//      whoever holds the byte exclusively, and finds such a record, knows that its holder died.
//  G2. Each word has one writer at a time: the cells of a slot its process, records of a key its holders, and a bit of the
//      bitmaps the process of its slot. An exclusive holder may clear what is left of those that cannot be there any more.
//  G3. A turn that is given to a process counts for kTurnFor at most.
//  G4. Tokens rise for each key: the clock does, and the last token is in the key's bucket in case it does not.
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
#include "core/mode.h"
#include "core/sync.h"

namespace stripelock {

// A key is a byte of the file: the first 62 bits of its hash, above all others.
inline constexpr std::uint64_t kKeyBytes = std::uint64_t{1} << 62;
// Whoever makes the file has this one.
inline constexpr std::uint64_t kMakingByte = std::uint64_t{1} << 40;
// Two open files of one process try whether they exclude each other, on the byte of their process.
inline constexpr std::uint64_t kProbeBytes = kMakingByte + (std::uint64_t{1} << 33);
// A process has the byte of its slot as long as it lives.
inline constexpr std::uint64_t kLifeBytes = kMakingByte + 1;
inline constexpr int kSlots = 128;
inline constexpr std::uint32_t kMostSpread = 64;
inline constexpr int kNoSlot = -1;

std::uint64_t byteOfKey(std::string_view key);

// Newcomers may pass others for this time, from when those began to wait, or from when one of them last got the key.
inline constexpr Nanoseconds kBargeFor = 1'000'000;
// How long a key is kept for the process whose turn it is. One that does not take it is passed over until it tries again.
inline constexpr Nanoseconds kTurnFor = 10'000'000;

class ProcessPage {
 public:
  // Of a file that this process has just opened. False: `error` says why it cannot be used. If this makes the page, that many
  // files share the locks of keys, or one if it is 0; else the number must be that of whoever made it, or 0.
  bool open(LockFile& file, const std::string& title, std::uint32_t files, FileError& error);
  std::uint32_t files() const { return files_; }
  int slot() const { return slot_; }
  Word* bell() const { return slot_ == kNoSlot ? nullptr : &page_->slots[slot_].bell; }

  // ── who waits ──

  struct Wait {
    // 0 if nobody waits.
    std::uint64_t byte = 0;
    // Several keys that meet in one row: any of them will do.
    bool several = false;
    bool shared = false;
    // On the clock of elapsed().
    Nanoseconds since = 0;
    std::int32_t threadId = 0;
  };
  static std::uint32_t rowOf(std::uint64_t byte) { return static_cast<std::uint32_t>(byte % kRows); }
  // What this process waits for in a row. Before it tries to lock once more.
  void enrol(std::uint32_t row, const Wait& wait);
  // This process tries for a key that it waits for, whatever others have thought of it.
  void stir(std::uint64_t byte);

  struct Turn {
    int slot = kNoSlot;
    bool shared = false;
    Nanoseconds since = 0;
  };
  // The process whose turn it is among those that wait for a key: the oldest that does not seem to be stopped. Only other
  // processes.
  Turn next(std::uint64_t byte);
  // Whether others wait for the key, or for one that meets it in its row.
  bool isAwaited(std::uint64_t byte) const;
  // Whether another process has waited longer to have the key alone. One that has not tried for a while does not count: it may
  // be stopped.
  bool isAwaitedBefore(std::uint64_t byte, Nanoseconds since) const;
  // Whether one that began to wait then is passed by nobody any more.
  bool isDue(std::uint64_t byte, Nanoseconds since, Nanoseconds time) const;
  // One that had waited has it now. If none has waited longer, the time runs anew in which others may be passed: a hand-over to
  // another process costs as much as many acquisitions of one.
  void servedWaiter(std::uint64_t byte, Nanoseconds since);
  // Keeps the key for that one, before the byte is freed. Removes waiters that turn out to be dead.
  void giveTurn(std::uint64_t byte, Nanoseconds time);
  // Whether the key is kept for another process.
  bool isKept(std::uint64_t byte) const;
  // This process has it now.
  void takeTurn(std::uint64_t byte);
  // Wakes the process whose turn it is, or all that may share it. After the byte was freed.
  void wakeNext(std::uint64_t byte);

  // ── who holds ──

  struct Holder {
    std::int32_t threadId = 0;
    // Milliseconds since 1970.
    double since = 0;
    std::string_view key;
  };
  // Records that this process holds the key. True if a record says that an exclusive holder died. `place` is where the
  // record is, or kNoPlace if there was no room: then nobody will learn of this holder's death.
  bool hold(std::uint64_t byte, bool shared, const Holder& holder, std::int32_t& place);
  bool isAbandoned(std::uint64_t byte) const { return find(byte, false) != kNoPlace; }
  void leave(std::uint64_t byte, std::int32_t place);
  static constexpr std::int32_t kNoPlace = -1;

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

  static constexpr std::uint32_t kRows = 64;
  static constexpr std::uint32_t kBuckets = 256;
  static constexpr std::int32_t kPerBucket = 7;
  static constexpr std::int32_t kPlaces = static_cast<std::int32_t>(kBuckets) * kPerBucket;
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::size_t kBitmapWords = kSlots / 64;

  struct Head {
    char mark[16];
    std::uint32_t version;
    // How many files have the locks of keys, and that number with all bits turned: another number would let two hold a key.
    std::uint32_t files;
    std::uint32_t filesTurned;
    std::uint32_t unused;
    char boot[40];
    // What to add to the clock of elapsed(), in all processes of this start of the machine.
    std::int64_t base;
  };
  struct Slot {
    Word bell;
    Word pid;
    char title[120];
  };
  struct alignas(64) Bucket {
    Number lastToken;
    // What is held: the byte, and whether it is shared.
    Number held[kPerBucket];
  };
  struct Record {
    std::uint32_t pid;
    std::int32_t slot;
    std::int32_t threadId;
    std::uint32_t length;
    double since;
    char key[72];
  };
  struct Cell {
    Number wanted;
    Number since;
    Number threadId;
    // When it tried last.
    Number triedAt;
  };
  struct alignas(64) Row {
    // Which slot has the turn, for which key, until when.
    Number turn;
    Number waiting[kBitmapWords];
    // Those that did not use their turn.
    Number passed[kBitmapWords];
    // When the one that had waited longest got a key.
    Number servedAt;
    Number unused[2];
    Cell cells[kSlots];
  };
  struct Page {
    union {
      Head head;
      char block[4096];
    };
    Slot slots[kSlots];
    Bucket buckets[kBuckets];
    Record records[kPlaces];
    Row rows[kRows];
  };
  static_assert(sizeof(Head) <= 4096 && sizeof(Slot) == 128 && sizeof(Bucket) == 64 && sizeof(Record) == 96);

  bool make(const std::string& boot, std::uint32_t files, FileError& error);
  bool readHead(Head& head, FileError& error);
  void claimSlot(const std::string& title);
  Row& rowAt(std::uint64_t byte) const { return page_->rows[rowOf(byte)]; }
  std::int32_t find(std::uint64_t byte, bool shared) const;
  template <typename Visit>
  void forEachPlace(std::uint64_t byte, Visit visit) const;
  Number& heldAt(std::int32_t place) const {
    return page_->buckets[place / kPerBucket].held[place % kPerBucket];
  }
  template <typename Visit>
  void forEachWaiting(std::uint64_t byte, Visit visit) const;
  bool isAlive(int slot) { return file_->lockedElsewhere(kLifeBytes + static_cast<std::uint64_t>(slot)); }
  void forget(Row& row, int slot);

  LockFile* file_ = nullptr;
  Page* page_ = nullptr;
  int slot_ = kNoSlot;
  std::int64_t base_ = 0;
  std::uint32_t files_ = 1;
};

}  // namespace stripelock
