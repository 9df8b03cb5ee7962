// The header of a lock file. It determines the byte and the file of each key, and the offset of the tokens from the
// clock.
//
// Two processes that disagree on the byte of a key could both hold that key. So:
//  H1. All living processes that have the file open agree on its layout: the seed of the hash, the limit, the number of
//      files, and the identity of each. While a process has the file open, it keeps a shared lock on the byte that its
//      layout hashes to. If a byte of another layout is locked too, the process refuses to open the file. So the
//      kernel's locks decide which layout is valid, not the header.
//  H2. A header that is missing or damaged is written again only while no process has the file open. A process that has
//      the file open may write its own copy of the header at any time, because all such processes agree (H1).

#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/files/lock_file.h"

namespace stripelock {

// Each key has a byte of the file, which a process locks to hold the key. The byte's position is this number plus the
// first 62 bits of the key's hash, so it is above all other bytes that are locked.
inline constexpr std::uint64_t kKeyBytes = std::uint64_t{1} << 62;
// The process that creates the file or writes a new header locks this byte.
inline constexpr std::uint64_t kMakingByte = std::uint64_t{1} << 40;
// A process with slot n keeps the byte kLifeBytes + n locked until it ends.
inline constexpr std::uint64_t kLifeBytes = kMakingByte + 1;
inline constexpr int kSlots = 128;
// The bytes of the layouts (H1).
inline constexpr std::uint64_t kLayoutBytes = kMakingByte + (std::uint64_t{1} << 20);
inline constexpr std::uint64_t kLayouts = std::uint64_t{1} << 32;
// A process that opens the file tries to lock one of these bytes twice, to test whether locks work.
inline constexpr std::uint64_t kProbeBytes = kMakingByte + (std::uint64_t{1} << 33);
inline constexpr std::uint64_t kProbes = std::uint64_t{1} << 32;
inline constexpr std::uint32_t kMostSpread = 64;
inline constexpr std::uint32_t kMostPermits = 256;

// The process that creates the file fixes these numbers for all other processes.
struct FileShape {
  // The number of files that share the locks of keys. 0 matches any number; a new file gets 1.
  std::uint32_t files = 0;
  // The number of holders that a key can have at once. 0 matches any number; a new file gets 1.
  std::uint32_t limit = 0;
};

class LockFileHeader {
 public:
  // The size of the space at the start of the file that is reserved for the header.
  static constexpr std::size_t kBytes = 4096;

  // Functions that know the contents of the file behind the header.
  struct Contents {
    // Returns the highest token in the file.
    std::uint64_t (*lastToken)(LockFile& file);
    // Returns true if a file of this size may be a lock file with a header of zeros.
    bool (*isOwnSize)(std::uint64_t size);
  };

  // Reads or creates the header of a file that was just opened, and opens the parts of the file. If the header already
  // exists, the shape must match it.
  bool open(LockFile& file, const std::string& path, const FileShape& shape, const Contents& contents,
            FileError& error);

  std::uint32_t files() const { return head_.files; }
  std::uint32_t limit() const { return head_.limit; }
  // The error for a process that opens the file with another shape.
  FileError refusal(const FileShape& shape) const;
  std::uint64_t byteOf(std::string_view key) const;
  // The byte to lock for a permit of a key: without permits, the key's byte. Permits use only every second byte: the
  // kernel joins locks of neighbouring bytes, and would need memory to release only one of them.
  std::uint64_t permitOf(std::uint64_t byte, std::uint32_t permit) const {
    if (head_.limit <= 1) return byte;
    return (byte & ~(std::uint64_t{2} * std::bit_ceil(head_.limit) - 1)) + std::uint64_t{2} * permit;
  }
  // The difference between a new token and elapsed().
  std::int64_t base() const { return head_.base; }
  // Call it if the file may have been truncated or damaged. Writes this process's copy of the header (H2). `memory` is
  // where the file is mapped.
  void restore(void* memory) const;

 private:
  struct Head {
    char mark[16];
    std::uint32_t version;
    std::uint16_t files;
    std::uint16_t limit;
    std::uint64_t seed;
    // The identities of the parts, in order.
    LockFile::Identity parts[kMostSpread - 1];
    char boot[40];
    // The same in all processes until the machine restarts.
    std::int64_t base;
    // The hash of all bytes before this field.
    std::uint64_t checksum;
  };
  static_assert(sizeof(Head) <= kBytes && std::has_unique_object_representations_v<Head>);
  static constexpr std::uint32_t kVersion = 2;

  // kMissing: the file is empty, or its header is zero or damaged.
  enum class Found : std::uint8_t { kValid, kMissing, kOther };
  Found read(FileError& error);
  bool make(const std::string& path, const FileShape& shape, FileError& error);
  bool write(Found found, const std::string& path, const FileShape& shape, FileError& error);
  bool isOfThisBoot() const { return !boot_.empty() && boot_ == head_.boot; }
  std::vector<LockFile::Identity> parts() const;
  // Whether another process, or another LockFile of this process, has the file open.
  bool isOpenElsewhere() { return file_->lockedElsewhere(kLifeBytes, kProbeBytes - kLifeBytes); }
  bool agree(FileError& error);

  LockFile* file_ = nullptr;
  Contents contents_{};
  std::string boot_;
  Head head_{};
};

}  // namespace stripelock
