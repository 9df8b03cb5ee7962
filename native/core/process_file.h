// A file whose bytes are locks between processes, as the gate (gate.h) of the table in which the threads of this process
// hold its keys and wait for them.
//
// All threads that open a file share one ProcessFile, with one LockFile: to the kernel they are one holder. The first holder
// of a key in the process locks the key's byte, the last one unlocks it. The process never keeps a byte for its next thread:
// that one competes like everybody else, so no byte is ever held by a thread that does not run.
//
// Several keys: a thread has all words of its acquisition before it locks the first byte, and locks the bytes from the highest
// one down. If a byte is not available, the thread unlocks those that it has locked in this call. So a thread that waits has
// no byte. The process keeps the turns of the unlocked bytes (G3), and renews them as long as it waits for the refused one.
// Otherwise two keys that other processes hold in turns would never be free together. Turns are kept in the order of bytes,
// and each lasts kTurnFor at most after its last renewal, so processes do not wait for each other in a cycle.
//
//  L1. The process has the byte of a key, in the mode of the holders, as long as a thread has entered with the key.
//  L2. A ceded key is watched. After it was ceded, a look() writes the wait into the page, and then asks whether the byte is
//      free. So if the byte becomes free after that, the process that frees it sees the wait, and wakes this process.
//  L3. The first waiter of a watched key looks again whenever another process wakes this one, and at least every kFar: it
//      sleeps on the process's word in the page, if its thread blocks. For all event loops the file's own thread does so
//      (runWatch()). A thread that stops watching a key that stays ceded passes that on (look()).
//  L4. A wait stays in the page after the key was reopened, until its thread has entered, or the word is free.
//
// The next step for a key that a thread of this process waits for, by the state of its word:
//
//   word                    who takes the next step                       what makes it do so
//   free                    the designated waiter                         its thread was woken when the word became free
//   a slot, or shared       the holder, or a waiter that was granted the  its release; its thread was woken by the grant. If its
//                           word and has not entered                      event loop does not turn, others revoke the grant.
//   shared, closed          the holders; the thread that watches it, if   their releases; a wake, or kFar
//                           other processes do not want the key any more
//   kElsewhere              the thread that watches it (L3): it reopens   a wake by the process that frees the byte (L2), the
//                           the stripe, if the byte is free and kept for  end of kNear or kFar, or that it has just ceded the
//                           no other process                              key

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/gate.h"
#include "core/process_page.h"
#include "core/table.h"
#include "core/zeroed.h"

namespace stripelock {

class ProcessFile final : public Gate, public std::enable_shared_from_this<ProcessFile> {
 public:
  // Keys that threads of this process can use at once. The memory is reserved, and only that of used keys is touched.
  static constexpr std::uint32_t kMostKeys = 65'536;

  // The file at that path, which all threads of the process share. `title` is what other processes show of this one. `files`:
  // see LockFileHeader::open(). nullptr: `error` says why. Call close() as many times as this returned the file.
  static std::shared_ptr<ProcessFile> open(const std::string& path, const std::string& title,
                                           std::uint32_t files, FileError& error);
  // What is held stays held; the file is closed after that.
  void close();
  ProcessFile(std::unique_ptr<LockFile> file, std::string path);
  ~ProcessFile() override;

  // The memory of the table.
  void* memory() const { return shared_.get() + kTokenBytes; }
  // Memory that JavaScript reads: the tokens, by stripe, and then the header of the table. A thread that has entered with a
  // stripe finds a token there that is above those of all earlier holders.
  static constexpr std::size_t kTokenBytes = kMostKeys * sizeof(std::uint64_t);
  void* shared() const { return shared_.get(); }
  std::uint64_t tokenOf(std::uint32_t stripe) const { return tokenAt(stripe).load(); }

  // ── see gate.h ──

  void attach(std::weak_ptr<Table> table) override;
  Entry enter(const Ask& ask) override;
  bool leave(std::uint32_t stripe, std::uint32_t count, bool died, bool awaited) override;
  void settled(std::uint32_t stripe, bool ceded, bool free) override;
  void ceded(std::uint32_t stripe, const Participant* blocked) override;
  void look(std::uint32_t stripe, const Participant* ended) override;
  bool sleep(std::uint32_t stripe, Participant& blocked, Deadline deadline, Nanoseconds& poll) override;

  struct Seen : ProcessPage::Seen {
    // In this process.
    bool here = false;
  };
  std::vector<Seen> inspect(FileError& error);
  // The byte of a key, as inspect() shows it.
  std::uint64_t byteOf(std::string_view key);

 private:
  // A key that threads of the process hold or wait for, by its stripe.
  struct Key {
    std::uint64_t byte;
    // Threads that have entered with it.
    std::uint32_t holders;
    bool shared;
    // It is ceded (E3, L2). Changes under the stripe's shard only, where it may be read without the mutex.
    std::atomic<bool> watched;
    // The page says that this process waits for it. Set only while it is watched (L4).
    std::atomic<bool> enrolled;
    // The blocked thread that watches it. nullptr: the file's thread does.
    const Participant* attendant;
    std::int32_t place;
    // When it was first held. Milliseconds since 1970.
    double since;
    // Since when the process waits, on the clock of elapsed().
    Nanoseconds waitsSince;
  };
  // A key whose turn this process keeps while it waits for another one.
  struct Kept {
    std::uint32_t stripe;
    std::uint64_t byte;
    std::uint32_t waitsFor;
  };
  enum class Locked : std::uint8_t { kYes, kNo, kFailed };

  bool openPage(const std::string& title, std::uint32_t files, FileError& error);
  static std::shared_ptr<ProcessFile> find(const LockFile::Identity& identity, const std::string& path,
                                           FileError& error);
  using Token = std::atomic<std::uint64_t>;
  static_assert(sizeof(Token) == sizeof(std::uint64_t) && Token::is_always_lock_free);
  Token& tokenAt(std::uint32_t stripe) const {
    return static_cast<Token*>(static_cast<void*>(shared_.get()))[stripe];
  }
  // One that was closed, and whose memory is still in use, as JavaScript has not collected the views of it. A program that opens
  // a file for each use would fill its address space with new ones.
  static std::shared_ptr<ProcessFile> findClosed(const std::string& path);
  void reopen(std::unique_ptr<LockFile> file);
  Key& keyAt(std::uint32_t stripe) const { return keys_[stripe]; }

  // Everything from here on: with the mutex.

  // Another name of the file was used to open it.
  void openAgain(const std::string& path);
  void drop(std::size_t users);
  Locked lock(Key& key, const Ask& ask, FileError& error);
  // Takes a key of an acquisition whose words the thread has.
  Locked take(std::uint32_t stripe, const Ask& ask, Entry& entry);
  void issueToken(const Ask& ask);
  // Unlocks the byte after the last holder. True: the key is kept for another process now, or for this one if it `waits`.
  bool giveBack(std::uint32_t stripe, std::uint32_t count, bool died,
                const ProcessPage::Wait* waits = nullptr);
  // Removes the wait from the page.
  void withdraw(std::uint32_t stripe);
  // Gives up the turns that are kept while a key is waited for.
  void dropKept(std::uint32_t waitsFor);
  // Runs the file's thread (L3). False if the system has no room for a thread.
  bool watch();
  static void runWatch(void* self);
  // How long nobody needs to look whether the key can be had.
  Nanoseconds patience(std::uint32_t stripe, Nanoseconds poll);
  // Call it with nothing locked.
  std::shared_ptr<Table> table();
  // Writes the wait for a watched key into the page. Then whether other processes have the key, or are to have it first.
  bool isRefused(std::uint32_t stripe, const Table::Awaited& first);
  // Call it before the page is touched. Looks whether the file was cut, unless it did within kFresh.
  FileError refresh();
  // Whether the path leads to the file, in which the process has just locked a byte.
  FileError verify(std::uint64_t byte);
  FileError checked(const FileError& found, Nanoseconds time);

  Mutex mutex_;
  const Zeroed<char> shared_;
  const Zeroed<Key> keys_;
  std::weak_ptr<Table> table_;
  // Closed if nullptr.
  std::unique_ptr<LockFile> file_;
  std::string path_;
  ProcessPage page_;
  Bell bell_;
  // Who needs the file: threads that have opened it, holders, its own thread.
  std::size_t users_ = 1;
  std::uint64_t lastToken_ = 0;
  // The keys of the acquisition that enters: their bytes, and their indexes in it.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order_;
  std::vector<std::uint64_t> bytes_;
  // Stripes that are watched.
  std::vector<std::uint32_t> watched_;
  std::vector<Kept> kept_;
  // The file's thread: whether it runs, and what it sleeps on, if it sleeps for longer than kNear.
  bool isRunning_ = false;
  Bell* sleepsOn_ = nullptr;
  // Wakes it where it has nothing to watch.
  Bell work_;
  bool replaced_ = false;
  Nanoseconds checkedAt_ = 0;
  FileError checked_;
  // When it looked at the paths of all files, and for a slot. And what that time was since 1970, less the time.
  Nanoseconds lookedAt_ = 0;
  Nanoseconds toWall_ = 0;
  std::uint32_t cuts_ = 0;
};

}  // namespace stripelock
