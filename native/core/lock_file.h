// A file of the local disk: its bytes can be locked between processes, and its first bytes are memory that they share.
// All that differs between operating systems here is in lock_file.cc: locks of an open file, mappings, and a way to wake
// another process.
//
// A lock belongs to the open file, so to one LockFile, and the kernel frees it when the process ends, however it ends. Two
// of them exclude each other, in one process as well; the threads that use one do not.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/sync.h"

#if !defined(_WIN32)
struct stat;
#endif

namespace stripelock {

// Why a file cannot be used. lib/process/errors.ts has the same numbers.
enum class FileFault : std::uint8_t {
  kNone,
  // The system refused to open, make or map it; its error says why.
  kOpen,
  // It is not an ordinary file.
  kKind,
  // It is on another machine, or its file system does not keep such locks.
  kFileSystem,
  // It is something else, or was damaged.
  kForeign,
  // Another version of this package made it.
  kVersion,
  // A process that was making it has not finished, and has not ended.
  kBusy,
  // It was deleted or replaced since it was opened.
  kReplaced,
  // The system refused to lock a byte for another reason than that somebody has it.
  kLock,
  // This operating system has no such locks.
  kSystem,
  // It was created with another number of files, which is FileError::number.
  kFiles,
  // Its header is missing or damaged, and other processes have the file open.
  kDamaged,
  // A file beside it is missing, or is not the one that other processes have open.
  kParts,
};

struct FileError {
  FileFault fault = FileFault::kNone;
  // The system's error, or 0.
  int number = 0;
  explicit operator bool() const { return fault != FileFault::kNone; }
};

// Whether lockedElsewhere() has to try the lock, so that processes that call it at once may see each other.
#if defined(_WIN32)
inline constexpr bool kAsksByTrying = true;
#else
inline constexpr bool kAsksByTrying = false;
#endif

class LockFile {
 public:
  // Opens the file, or makes it, readable for nobody else. nullptr if it cannot.
  static std::unique_ptr<LockFile> open(const std::string& path, FileError& error);
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

  // From now on the locks of bytes from `first` on are spread over this file and over `parts`: files beside it whose names end
  // with .1, .2 and so on. The kernel goes through all locks of a file for each call. Fails with kParts unless these files
  // exist and are the given ones.
  bool spread(const std::string& path, const std::vector<Identity>& parts, std::uint64_t first,
              FileError& error);
  // Opens or creates `count` files beside a path, and closes them.
  static bool makeParts(const std::string& path, std::size_t count, std::vector<Identity>& parts,
                        FileError& error);

  enum class Answer : std::uint8_t { kTaken, kRefused, kFailed };
  // Tries to lock one byte, which this file has not locked. kFailed: `number` is the system's error.
  Answer lock(std::uint64_t byte, bool shared, int& number);
  void unlock(std::uint64_t byte);
  // Whether another open file has a lock on any of these bytes. If there are several, they must come before those that
  // are spread.
  bool lockedElsewhere(std::uint64_t byte, std::uint64_t count = 1);

  // ── contents ──

  bool read(void* to, std::size_t bytes, std::uint64_t from = 0);
  bool write(const void* from, std::size_t bytes, int& number);
  std::uint64_t size() const;
  // Writes the changes to the disk, so that they survive a power failure.
  void flush();

  // Makes the file at least this large, and maps it. Room on the disk is reserved for the first `reserved` bytes only: a write
  // behind them ends the process if the disk is full, unless reserve() was called before. The same memory each time, until
  // the file is closed. nullptr if it fails.
  void* map(std::size_t bytes, std::size_t reserved, int& number);
  // Reserves room on the disk for the page of memory around this address. False if the disk is full.
  bool reserve(const void* address);

  // Call it before the mapped memory is touched: if another program cut the file, to touch the memory behind its end would end
  // the process. Makes the file as large again as it was mapped. Where that fails, this fails, and the process continues with
  // memory that it shares with no other. Also fails if the file was deleted.
  FileError keepWhole();
  // How often keepWhole() found that the file was cut. The contents are zero then.
  std::uint32_t cuts() const { return cuts_; }
  // keepWhole(), and whether the file that has the byte was deleted, or this file was moved away from the path: then
  // kReplaced. A folder above it that was moved away is noticed only by isAt(). `time`: now().
  FileError look(const std::string& path, std::uint64_t byte, Nanoseconds time);
  // Whether the path leads to this file, and to the others beside it.
  bool isAt(const std::string& path) const;

 private:
  LockFile() = default;
  // Opens the file, and makes it if `make` is set.
  static std::unique_ptr<LockFile> open(const std::string& path, bool make, FileError& error);
  // Which of the files has the lock of a byte.
  LockFile& fileOf(std::uint64_t byte);
  bool isHere(const std::string& path) const;
  bool grow(std::size_t bytes, std::size_t reserved, int& number);

#if defined(_WIN32)
  void* file_ = nullptr;
  void* mapping_ = nullptr;
#else
  FileError keepWhole(const struct stat& info);

  int file_ = -1;
  // The blocks of the disk that the file had at the last look. It has fewer only after it was cut.
  std::int64_t blocks_ = 0;
  // The last change of the file's name or contents by the system's clock, and the time by now() when it was first seen.
  Nanoseconds changed_ = -1;
  Nanoseconds changeSeenAt_ = 0;
#endif
  Identity identity_;
  void* memory_ = nullptr;
  std::size_t mapped_ = 0;
  std::size_t reserved_ = 0;
  // For each page of the memory: whether this process has reserved its room on the disk.
  std::vector<bool> hasRoom_;
  std::uint32_t cuts_ = 0;
  // The memory is not the file's, as the file could not be made as large again.
  bool detached_ = false;
  std::vector<std::unique_ptr<LockFile>> more_;
  std::uint64_t spreadFrom_ = 0;
};

// What the threads of a process sleep on until another thread of it, or another process, rings.
class Bell {
 public:
  // `word` is in memory that other processes have mapped. Without it only this process can ring.
  void hang(Word* word);
  // Whether other processes can ring.
  bool isReachable() const;
  // How often it has rung.
  std::uint32_t listen() const;
  // Sleeps until it has rung more often than that, but no longer than this. May return early. The lock is unlocked meanwhile.
  void sleep(Lock& lock, std::uint32_t heard, Nanoseconds most);
  // With the lock that sleepers use.
  void ring();
  // Rings the bell of another process that hung it there. Nothing happens where the memory is gone.
  static void ringAt(Word& word);

 private:
  Word own_{0};
  Word* word_ = &own_;
};

std::uint32_t processId();
// A text that is another one after each start of the machine. Empty if the system has none.
std::string bootId();
// Runs a function in a thread of its own, which nobody waits for. False if the system has no room for one.
bool startThread(void (*run)(void* data), void* data);

}  // namespace stripelock
