// Why a file of locks cannot be used.

#pragma once

#include <cstdint>

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

}  // namespace stripelock
