// A file on a local disk. Processes can lock its bytes against each other, and map its first bytes as shared memory.
// lock_file.cc has all code that differs between operating systems: locks of an open file, mappings, and wake-ups of
// another process.
//
// A lock belongs to an open file description, and so to one LockFile. The kernel releases the lock when the process
// ends for any reason. Two LockFile objects exclude each other, also within one process. Threads that share a LockFile
// do not exclude each other.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file_error.h"
#include "core/base/platform.h"
#include "core/base/sync.h"

#if !defined(_WIN32)
struct stat;
#endif

namespace stripelock {

// Whether lockedElsewhere() has to lock the byte for a moment. If so, two processes that call it at the same time may
// each see the other's short lock.
#if defined(_WIN32)
inline constexpr bool kAsksByTrying = true;
#else
inline constexpr bool kAsksByTrying = false;
#endif

// The users that may open a lock file: its owner, the members of its group, or all. A user with write access can hold
// any key. By truncating the file, such a user can also crash each process that has the file open.
// lib/engine/contract/file-access.ts has the same numbers.
enum class FileAccess : std::uint8_t { kUser, kGroup, kAll };

class LockFile {
 public:
  // Opens the file, or creates it for the users of `access` if `make` is set. Returns nullptr if that fails. Fails with
  // kUnsafe if more users may write the file, or if another user owns it and `access` is kUser. On Windows, `access`
  // has no effect: there the permissions of the folder decide.
  static std::unique_ptr<LockFile> open(const std::string& path, FileAccess access, FileError& error,
                                        bool make = true);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t file = 0;
    bool operator==(const Identity&) const = default;
  };
  const Identity& identity() const { return identity_; }

  // ── locks ──

  // Distributes the byte locks from `first` on among several files: this one and `parts`, the files beside it with
  // names that end in .1, .2 and so on. This saves time, because the kernel searches all locks of a file at each call.
  // Fails with kParts unless these files exist and have the given identities.
  bool spread(const std::string& path, const std::vector<Identity>& parts, std::uint64_t first,
              FileError& error);
  // Opens or creates `count` files beside the path, for the same users, and closes them.
  bool makeParts(const std::string& path, std::size_t count, std::vector<Identity>& parts,
                 FileError& error) const;

  enum class Answer : std::uint8_t { kTaken, kRefused, kFailed };
  // Tries to lock one byte that this LockFile has not locked. On kFailed, sets `number` to the system's error.
  Answer lock(std::uint64_t byte, bool shared, int& number);
  void unlock(std::uint64_t byte);
  // Whether another LockFile has a lock that conflicts with locking these `count` bytes. A range of several bytes must
  // end before the `first` byte of spread().
  bool lockedElsewhere(std::uint64_t byte, std::uint64_t count = 1, bool shared = false);

  // ── contents ──

  bool read(void* to, std::size_t bytes, std::uint64_t from = 0);
  bool write(const void* from, std::size_t bytes, int& number);
  std::uint64_t size() const;
  // Writes the changes to the disk, so that they survive a power failure.
  void flush();

  // Makes the file at least this large, and maps it. Reserves disk space for the first `reserved` bytes only. On a full
  // disk, a write to later bytes ends the process, unless reserve() was called for them before. Returns the same memory
  // until the file is closed, or nullptr on failure.
  void* map(std::size_t bytes, std::size_t reserved, int& number);
  // Reserves room on the disk for the page of memory around this address. False if the disk is full.
  bool reserve(const void* address);

  // Call it before an access to the mapped memory. If another program has truncated the file, an access beyond the end
  // of the file would end the process. So keepWhole() extends the file to the mapped size again. If that fails,
  // keepWhole() maps private memory instead, and returns an error. It also fails if the file was deleted.
  FileError keepWhole();
  // The number of times that keepWhole() found the file truncated. The lost contents are zero afterwards.
  std::uint32_t cuts() const { return cuts_; }
  // Calls keepWhole(). Also fails with kReplaced if the file in which `byte` is locked was deleted, or if this file was
  // moved away from `path`. Only isAt() notices that a folder above the file was moved. `time`: elapsed().
  FileError look(const std::string& path, std::uint64_t byte, Nanoseconds time);
  // Whether the path still leads to this file, and the paths beside it lead to this file's parts.
  bool isAt(const std::string& path) const;

 private:
  LockFile() = default;
  // The file in which the byte is locked: this file or one of its parts.
  LockFile& fileOf(std::uint64_t byte);
  bool isHere(const std::string& path) const;
  bool grow(std::size_t bytes, std::size_t reserved, int& number);

#if defined(_WIN32)
  void* file_ = nullptr;
  void* mapping_ = nullptr;
#else
  FileError keepWhole(const struct stat& info);

  int file_ = -1;
  // The number of the file's disk blocks at the last check. This number falls only if the file is truncated.
  std::int64_t blocks_ = 0;
  // changed_: when the file's name or contents last changed, on the file system's clock. changeSeenAt_: when this
  // process first saw that change, on the clock of elapsed().
  Nanoseconds changed_ = -1;
  Nanoseconds changeSeenAt_ = 0;
#endif
  Identity identity_;
  FileAccess access_ = FileAccess::kUser;
  void* memory_ = nullptr;
  std::size_t mapped_ = 0;
  std::size_t reserved_ = 0;
  // For each page of the memory: whether this process has reserved room for it on the disk.
  std::vector<bool> hasRoom_;
  std::uint32_t cuts_ = 0;
  // True if private memory has replaced the mapping, because the file could not be extended again.
  bool detached_ = false;
  std::vector<std::unique_ptr<LockFile>> more_;
  std::uint64_t spreadFrom_ = 0;
};

// A word on which threads of a process sleep until another thread, or another process, wakes them.
class WakeWord final : public Wakeable {
 public:
  // Sets the word on which threads will sleep; it is in memory that other processes have mapped. With nullptr, only
  // this process can wake the threads.
  void use(Word* word);
  // Whether other processes can wake the threads.
  bool isReachable() const;
  // The number of wakes so far.
  std::uint32_t wakes() const;
  // Sleeps while the number of wakes is `seen`, but no longer than `most`. May return early. Unlocks the lock during
  // the sleep.
  void sleep(Lock& lock, std::uint32_t seen, Nanoseconds most);
  // From any thread.
  void wake() override;
  // Wakes another process that uses this word. Has no effect if the memory no longer exists. Returns false if no thread
  // slept on the word.
  static bool wakeAt(Word& word);

 private:
  Word own_{0};
  std::atomic<Word*> word_{&own_};
};

std::uint32_t processId();
// A text that is different after each start of the machine. Empty if the system has none.
std::string bootId();
// Runs a function in a new, detached thread. False if the system has no room for a thread.
bool startThread(std::function<void()> run);

}  // namespace stripelock
