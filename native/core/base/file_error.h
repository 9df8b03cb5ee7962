#pragma once

#include <cstdint>

namespace stripelock {

// Why a lock file cannot be used. lib/engine/contract/file-fault.ts has the same numbers.
enum class FileFault : std::uint8_t {
  kNone,
  // The system refused to open, create or map the file; FileError::number is the system's error.
  kOpen,
  // The path leads to something other than an ordinary file.
  kKind,
  // The file is on another machine, or its file system does not support the locks of this library.
  kFileSystem,
  // The file is not a lock file, or was damaged.
  kForeign,
  // Another version of this package created the file.
  kVersion,
  // The process that creates the file has not finished, and is still running.
  kBusy,
  // The file was deleted or replaced after it was opened.
  kReplaced,
  // A byte could not be locked, although no other holder has locked it.
  kLock,
  // This operating system does not support the locks of this library.
  kSystem,
  // The lock was created with a different number of files; FileError::number is the number that it has.
  kFiles,
  // The file's header is missing or damaged, and other processes have the file open.
  kDamaged,
  // A part of the lock file (a file beside it) is missing, or is not the one that other processes have open.
  kParts,
  // The file's permissions let users write whom the requested FileAccess excludes, or the FileAccess is kUser and
  // another user owns the file.
  kUnsafe,
  // The file was created with another limit; FileError::number is that limit.
  kLimit,
};

struct FileError {
  FileFault fault = FileFault::kNone;
  // The system's error, or 0.
  int number = 0;
  // The file that has the fault: 0 for the lock file itself, 1 for the part whose name ends in .1, and so on.
  std::uint32_t part = 0;
  // If kUnsafe: the id of the user that owns the file, and the file's permissions.
  std::uint32_t owner = 0;
  std::uint32_t mode = 0;
  explicit operator bool() const { return fault != FileFault::kNone; }
};

}  // namespace stripelock
