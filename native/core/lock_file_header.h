// The header of a lock file: which byte of which file each key has, and the clock of tokens.
//
// Two processes that disagree on the byte of a key could both hold it. So:
//  H1. All living processes that have the file open agree on its layout: the seed of the hash, the number of files, and the
//      identity of each. A process locks, in shared mode, the byte that its layout hashes to, as long as it has the
//      file open. If a byte of another layout is locked too, it refuses to open. The kernel decides this, whatever the
//      header says.
//  H2. A header that is missing or damaged is written again only while no process has the file open. A process that has it
//      open may restore its own copy at any time, because of H1.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/lock_file.h"

namespace stripelock {

// A key is a byte of the file: the first 62 bits of its hash, above all other bytes that are locked.
inline constexpr std::uint64_t kKeyBytes = std::uint64_t{1} << 62;
// The process that creates the file, or writes a new header, has this one.
inline constexpr std::uint64_t kMakingByte = std::uint64_t{1} << 40;
// A process has the byte of its slot as long as it lives.
inline constexpr std::uint64_t kLifeBytes = kMakingByte + 1;
inline constexpr int kSlots = 128;
// H1.
inline constexpr std::uint64_t kLayoutBytes = kMakingByte + (std::uint64_t{1} << 20);
inline constexpr std::uint64_t kLayouts = std::uint64_t{1} << 32;
// Two open files of one process try whether they exclude each other, on one of these.
inline constexpr std::uint64_t kProbeBytes = kMakingByte + (std::uint64_t{1} << 33);
inline constexpr std::uint64_t kProbes = std::uint64_t{1} << 32;
inline constexpr std::uint32_t kMostSpread = 64;

class LockFileHeader {
 public:
  // The room for it at the start of the file.
  static constexpr std::size_t kBytes = 4096;

  // Reads the header of a file that was just opened, or creates it, and opens the other files. `files`: how many files share the
  // locks of keys, if this creates the header; else the number must be the header's, or 0. `lastToken` returns the highest
  // token in the file, and `isOwnSize` returns whether a file of that size may be a lock file whose header is zero.
  bool open(LockFile& file, const std::string& path, std::uint32_t files,
            const std::function<std::uint64_t()>& lastToken,
            const std::function<bool(std::uint64_t)>& isOwnSize, FileError& error);

  std::uint32_t files() const { return head_.files; }
  std::uint64_t byteOf(std::string_view key) const;
  // The difference between a new token and elapsed().
  std::int64_t base() const { return head_.base; }
  // The file was cut or damaged: writes this process's copy of the header (H2). `memory` is where the file is mapped.
  void restore(void* memory) const;

 private:
  struct Head {
    char mark[16];
    std::uint32_t version;
    std::uint32_t files;
    std::uint64_t seed;
    // The other files, in their order.
    LockFile::Identity parts[kMostSpread - 1];
    char boot[40];
    // The same in all processes of this start of the machine.
    std::int64_t base;
    // The hash of all bytes before it.
    std::uint64_t checksum;
  };
  static_assert(sizeof(Head) <= kBytes && std::has_unique_object_representations_v<Head>);
  static constexpr std::uint32_t kVersion = 2;

  // kMissing: the file is empty, or its header is zero or damaged.
  enum class Found : std::uint8_t { kValid, kMissing, kOther };
  Found read(const std::function<bool(std::uint64_t)>& isOwnSize, FileError& error);
  bool make(const std::string& path, std::uint32_t files, const std::function<std::uint64_t()>& lastToken,
            const std::function<bool(std::uint64_t)>& isOwnSize, FileError& error);
  bool write(Found found, const std::string& path, std::uint32_t files, std::uint64_t lastToken,
             FileError& error);
  bool isOfThisBoot() const { return !boot_.empty() && boot_ == head_.boot; }
  std::vector<LockFile::Identity> parts() const;
  // Whether another open file has the lock file open.
  bool isOpenElsewhere() { return file_->lockedElsewhere(kLifeBytes, kProbeBytes - kLifeBytes); }
  bool agree(FileError& error);

  LockFile* file_ = nullptr;
  std::string boot_;
  Head head_{};
};

}  // namespace stripelock
