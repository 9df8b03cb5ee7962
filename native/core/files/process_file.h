// A lock file: to hold a key, a process locks the key's byte in the file. A ProcessFile is the gate (gate.h) of a
// table. In that table, the threads of this process hold the keys of the file, and wait for keys.
//
// All threads that open a file share one ProcessFile and its LockFile, so the kernel sees one holder. The first thread
// that enters with a key locks the key's byte, and the last thread that leaves unlocks that byte. The process does not
// keep the byte for its next thread, which competes with all other processes. So a byte is only held while a thread of
// this process holds the key.
//
// Several keys: a thread first takes all words of its acquisition, and then locks the bytes, highest first. If a byte
// is not available, the thread unlocks the bytes that it has locked, so a waiting thread has no byte. The process keeps
// the turns of the unlocked bytes (G3), and renews them while it waits for the refused byte. Otherwise two keys that
// other processes hold alternately would never be free together. Turns are kept in the order of bytes, and each ends
// kTurnFor after its last renewal. So processes do not wait for each other in a cycle.
//
// Permits: if the file has a limit N above 1, a key has N bytes, and each holder has one of them exclusively. To enter,
// a thread locks any free byte; to leave, it unlocks any byte that its process has locked. Waits and turns belong to
// the key, not to a permit.
//
//  L1. From a thread's enter() until the thread leaves the gate, the process has the key's byte locked, in the thread's
//      mode. With permits, it has locked one byte of the key for each such thread.
//  L2. A ceded key is watched. After a key is ceded, look() writes the wait into the page, and then checks whether the
//      byte is free. If the byte is freed after that check, the process that frees it sees the wait, and wakes this
//      process unless it is already awake (G5).
//  L3. The watcher of a key (E5) checks the key when another process wakes this one, and at least every kFar. The
//      watcher sleeps on the process's word in the page. The file's own thread is the watcher for all event loops
//      (runWatch()). A new watcher is woken, and checks the key before it sleeps.
//  L4. After a key is reopened, the wait stays in the page until the waiting thread has entered. It is also removed
//      when no thread of the process waits for the key or is about to enter.
//  L5. A process that takes a permit while another permit is free wakes the next process. Without this, the releases of
//      two permits could both wake the same process, and the second permit would stay unused.
//
// The next step for a key that a thread of this process waits for, by the state of the key's word:
//
//   word               next step                                        started by
//   free               the designated waiter tries                      the release, which wakes the waiter's thread
//   a slot, or shared  the holder releases, or a waiter enters after    the grant, which wakes the waiter's thread. If
//                      it was granted the word                          its event loop is busy, other threads revoke
//                                                                       the grant.
//   shared, closed     the holders release, or the watcher reopens the  the releases, a wake from another process, or
//                      stripe if no other process wants the key         kFar
//   kElsewhere         the watcher (L3) reopens the stripe if the byte  a wake from the process that frees the byte
//                      is free and not kept for another process         (L2), the end of kNear or kFar, or ceded()

#pragma once

#include <algorithm>
#include <bitset>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/zeroed.h"
#include "core/files/process_page.h"
#include "core/table/gate.h"
#include "core/table/table.h"

namespace stripelock {

class ProcessFile final : public Gate, public std::enable_shared_from_this<ProcessFile> {
 public:
  // The number of keys that this process can use at once. Only the memory of used keys is accessed.
  static constexpr std::uint32_t kMostKeys = 65'536;

  // Opens the file at that path for the calling thread. All threads share the result; each calls close() once. Other
  // processes show `title` for this process. `shape`: see LockFileHeader::open(). Returns nullptr and sets `error` on
  // failure.
  static std::shared_ptr<ProcessFile> open(const std::string& path, const std::string& title,
                                           const FileShape& shape, FileAccess access, FileError& error);
  // Held keys stay held; the file is closed after their release.
  void close();
  ProcessFile();

  // The number of holders that a key can have at once: the limit of the table.
  std::uint32_t limit() const { return limit_; }
  // Memory that JavaScript reads: the tokens, by stripe, and then the header of the table. The token of a held stripe
  // is greater than the tokens of all earlier holders.
  static constexpr std::size_t kTokenBytes = kMostKeys * sizeof(std::uint64_t);
  void* shared() const { return shared_.get(); }

  // ── see gate.h ──

  void attach(std::weak_ptr<Table> table) override;
  Entry enter(const Ask& ask) override;
  bool leave(std::uint32_t stripe, std::uint32_t count, bool died, bool awaited) override;
  void settled(std::uint32_t stripe, std::uint32_t word, bool called, bool ceded,
               const Waiter* first) override;
  void ceded(std::uint32_t stripe, const Participant* blocked) override;
  bool look(std::uint32_t stripe) override;
  bool sleep(const Ask& ask, std::uint32_t stripe, Participant& blocked, Deadline deadline,
             Nanoseconds& poll) override;

  std::vector<ProcessPage::Seen> inspect(FileError& error);
  // The holders of the key in other processes. Empty if the file cannot be used.
  std::vector<ProcessPage::Seen> holdersElsewhere(std::string_view key);
  // The byte by which inspect() identifies a key: with permits, the first permit's byte.
  std::uint64_t byteOf(std::string_view key);

 private:
  // A key that threads of the process hold or wait for, by its stripe.
  struct Key {
    std::uint64_t byte;
    // The number of threads that have entered the key.
    std::uint32_t holders;
    bool shared;
    // Whether the key is ceded (E3, L2). Written only while both the mutex and the stripe's shard are locked. To
    // read it, one of the two is enough.
    std::atomic<bool> watched;
    // Whether the page has this process's wait for the key. Set only while the key is watched (L4).
    std::atomic<bool> enrolled;
    // first: the key's first waiter, never dereferenced. attendant: the blocked thread that watches the key (E5), or
    // nullptr if the file's thread watches it. Valid while the key is watched. Both change only with the stripe's shard
    // locked.
    const Waiter* first;
    Participant* attendant;
    std::int32_t place;
    // The time at which the key's first holder entered, in milliseconds since 1970.
    double since;
    // The time at which the key's first waiter began to wait, on the clock of elapsed().
    Nanoseconds waitsSince;
    // Whether the last release of this process gave the key's turn to another process, and no later check found that no
    // process comes first. May be left over from another key that had the stripe.
    bool gaveTurn;
    // The permits whose bytes this process has locked. Without a limit, a key has one permit.
    std::bitset<kMostPermits> permits;
  };
  // A key whose turn this process keeps while it waits for another key.
  struct Kept {
    std::uint32_t stripe;
    std::uint64_t byte;
    std::uint32_t waitsFor;
  };

  // Opens the page of a file that has just been opened.
  bool start(std::unique_ptr<LockFile> file, const std::string& path, const std::string& title,
             const FileShape& shape, FileError& error);
  static std::shared_ptr<ProcessFile> find(const LockFile::Identity& identity, const std::string& path,
                                           FileError& error);
  using Token = std::atomic<std::uint64_t>;
  static_assert(sizeof(Token) == sizeof(std::uint64_t) && Token::is_always_lock_free);
  // Finds a closed file whose memory JavaScript has not collected yet, so that the memory can be reused. Otherwise a
  // program that opens and closes a file for each use would exhaust its address space.
  static std::shared_ptr<ProcessFile> findClosed(const std::string& path, std::uint32_t limit);

  // Call the functions below with the mutex locked, unless stated otherwise.

  // Call it after the file was opened again, possibly by another name.
  void openAgain(const std::string& path);
  std::uint64_t placeOf(std::uint64_t byte) const { return page_.header().permitOf(byte, 0); }
  void drop(std::size_t users);
  // The number of a key's bytes that the process must have locked for this number of holders (L1).
  std::uint32_t permitsFor(std::uint32_t holders) const {
    return hasPermits(limit_) ? holders : std::min(holders, 1U);
  }
  bool isShared(Mode mode) const { return isCounted(mode) && !hasPermits(limit_); }
  // Sets `permit` to the locked permit.
  Entry::How lock(Key& key, const Ask& ask, std::uint32_t& permit, FileError& error);
  // The slot of the process that comes before this acquisition, or kNoSlot. Call it right after a check of the file.
  int comesFirst(const Key& key, const Ask& ask) const;
  // Locks the byte of any free permit.
  LockFile::Answer lockPermit(Key& key, std::uint32_t& permit, int& number);
  // Whether at least `count` permits are free.
  bool areFree(const Key& key, std::uint32_t count);
  // Enters with one key of an acquisition. The thread must have the words of all keys of the acquisition.
  Entry::How take(std::uint32_t stripe, const Ask& ask, Entry& entry);
  // Removes `count` holders from the key, and unlocks the bytes that are no longer needed. Returns true if the key is
  // now kept: for this process if `waits` is set, otherwise for another process.
  bool giveBack(std::uint32_t stripe, std::uint32_t count, bool died,
                const ProcessPage::Wait* waits = nullptr);
  bool unlock(Key& key, std::uint32_t permit, bool died, const ProcessPage::Wait* waits);
  // Removes the process's wait from the page.
  void withdraw(std::uint32_t stripe);
  // Drops the turns that this process keeps while it waits for the key of the stripe `waitsFor`.
  void dropKept(std::uint32_t waitsFor);
  // Starts or wakes the file's thread (L3). Returns false if the system cannot start a thread.
  bool watch();
  // Wakes the watcher of a key, which then checks the key.
  void wakeWatcher(const Key& key);
  void runWatch();
  // The time that the watcher may sleep before it polls the key.
  Nanoseconds patience(std::uint32_t stripe, Nanoseconds poll);
  // Call it with nothing locked.
  std::shared_ptr<Table> table();
  // The obstacle that keeps this process from a key: none, a holder, or a waiter that comes first. With permits,
  // findObstacle() returns kHolder even if the only obstacle is turns that are kept for other processes.
  enum class Obstacle : std::uint8_t { kNone, kHolder, kWaiter };
  // Writes the wait for a watched key into the page, and then checks the key.
  Obstacle findObstacle(std::uint32_t stripe, const ProcessPage::Wait& wait);
  // Call it before an access to the page. Repairs the file if another program has truncated it. Within kFresh after a
  // check, returns the result of that check.
  FileError refresh();
  // Call it after a byte was locked. Checks that the path still leads to the file.
  FileError verify(std::uint64_t byte);
  FileError checked(const FileError& found, Nanoseconds time);

  Mutex mutex_;
  const Zeroed<char> shared_;
  const Zeroed<Key> keys_;
  std::weak_ptr<Table> table_;
  // nullptr if the file is closed.
  std::unique_ptr<LockFile> file_;
  std::string path_;
  // 0 until the file is open for the first time.
  std::uint32_t limit_ = 0;
  ProcessPage page_;
  WakeWord wakeWord_;
  // The number of open() calls without a close(), plus holders, watched keys, spinning threads, and 1 for the file's
  // own thread. At 0, the file is closed.
  std::size_t users_ = 0;
  std::uint64_t lastToken_ = 0;
  // Used by enter(): the byte of each key and the key's index in the acquisition, highest byte first.
  ProcessPage::Order order_;
  // The stripes of watched keys.
  std::vector<std::uint32_t> watched_;
  std::vector<Kept> kept_;
  // State of the file's thread: whether it runs, whether it must check all keys again before it sleeps, and the word on
  // which it sleeps. That word is set only for sleeps of more than kNear.
  bool isRunning_ = false;
  bool looksAgain_ = false;
  WakeWord* sleepsOn_ = nullptr;
  // The file's thread sleeps on this word while it has nothing to watch.
  WakeWord work_;
  bool replaced_ = false;
  Nanoseconds checkedAt_ = 0;
  FileError checked_;
  // The time of the last check of all paths, and the difference between the wall clock and elapsed().
  Nanoseconds lookedAt_ = 0;
  Nanoseconds toWall_ = 0;
  std::uint32_t cuts_ = 0;
};

}  // namespace stripelock
