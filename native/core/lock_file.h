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
  // Whoever made it wanted its locks in another number of files. FileError::number is that number.
  kFiles,
};

struct FileError {
  FileFault fault = FileFault::kNone;
  // The system's error, or 0.
  int number = 0;
  explicit operator bool() const { return fault != FileFault::kNone; }
};

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

  // From now on the locks of bytes from `first` on are spread over so many files: this one, and others beside it whose names
  // end with .1, .2 and so on. The kernel goes through all locks of a file for each call.
  bool spread(const std::string& path, std::uint32_t files, std::uint64_t first, FileError& error);

  enum class Answer : std::uint8_t { kTaken, kRefused, kFailed };
  // Tries to lock one byte, which this file has not locked. kFailed: `number` is the system's error.
  Answer lock(std::uint64_t byte, bool shared, int& number);
  void unlock(std::uint64_t byte);
  // Whether another open file has a lock on it.
  bool lockedElsewhere(std::uint64_t byte);

  // ── contents ──

  bool read(void* to, std::size_t bytes);
  bool write(const void* from, std::size_t bytes);
  // Makes the file this large, and reserves the room on the disk. Existing contents stay.
  bool grow(std::size_t bytes, int& number);
  std::uint64_t size() const;
  // The same memory each time, until the file is closed. nullptr if it fails.
  void* map(std::size_t bytes, int& number);
  // What the next calls of others read is on the disk.
  void flush();

  // Finds out whether the file was deleted, and makes it as large again as it was mapped if somebody cut it: to touch the
  // memory behind its end would end the process. Then whether the file that has the byte was deleted.
  FileFault look(std::uint64_t byte = 0);
  // Whether the path still leads to this file, and to the others beside it.
  bool isAt(const std::string& path) const;

 private:
  LockFile() = default;
  // Which of the files has the lock of a byte.
  LockFile& fileOf(std::uint64_t byte);
  bool isHere(const std::string& path) const;

#if defined(_WIN32)
  void* file_ = nullptr;
  void* mapping_ = nullptr;
#else
  int file_ = -1;
#endif
  Identity identity_;
  void* memory_ = nullptr;
  std::size_t mapped_ = 0;
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
