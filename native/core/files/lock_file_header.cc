#include "core/files/lock_file_header.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "core/base/hash.h"
#include "core/base/platform.h"

namespace stripelock {

namespace {

constexpr std::array<char, 16> kMark = {'s', 't', 'r', 'i', 'p', 'e', 'l', 'o',
                                        'c', 'k', ' ', 'f', 'i', 'l', 'e', '\n'};
constexpr Nanoseconds kMakingFor = 5'000'000'000;
// How long agree() retries, because a process that calls lockedElsewhere() may seem to hold the byte for a moment.
constexpr Nanoseconds kAskFor = 100 * kMillisecond;

}  // namespace

std::uint64_t LockFileHeader::byteOf(std::string_view key) const {
  // Excludes the last byte of the largest possible file: a lock of that byte would extend to infinity.
  return kKeyBytes | std::min(hashBytes(key.data(), key.size(), head_.seed) >> 2, kKeyBytes - 2);
}

bool LockFileHeader::open(LockFile& file, const std::string& path, const FileShape& shape,
                          const Contents& contents, FileError& error) {
  file_ = &file;
  contents_ = contents;
  boot_ = bootId();
  const Found found = read(error);
  if (found == Found::kOther) return false;
  bool isRead = found == Found::kValid && isOfThisBoot();
  const auto openParts = [&] { return file.spread(path, parts(), kKeyBytes, error); };
  // If the file was copied or has a second name, its parts can differ from those in the header. Then the header is made
  // again, but only if no other process has the file open.
  if (isRead && !openParts()) {
    if (error.fault != FileFault::kParts) return false;
    isRead = false;
  }
  if (!isRead && (!make(path, shape, error) || !openParts())) return false;
  error = refusal(shape);
  return !error && agree(error);
}

FileError LockFileHeader::refusal(const FileShape& shape) const {
  if (shape.files != 0 && shape.files != head_.files) return {FileFault::kFiles, head_.files};
  // mutant: process-ignores-other-limits
  if (shape.limit != 0 && shape.limit != head_.limit) return {FileFault::kLimit, head_.limit};
  return {};
}

// Sets head_ to the file's header if that is valid, otherwise to zero.
LockFileHeader::Found LockFileHeader::read(FileError& error) {
  head_ = {};
  const std::uint64_t size = file_->size();
  if (size == 0) return Found::kMissing;
  Head head{};
  const bool isRead = size >= sizeof head && file_->read(&head, sizeof head);
  const bool isMarked = isRead && std::memcmp(head.mark, kMark.data(), kMark.size()) == 0;
  if (isMarked && head.version != kVersion) {
    error = {FileFault::kVersion, 0};
    return Found::kOther;
  }
  // mutant: process-trusts-a-damaged-header
  const bool isWhole = isMarked && head.checksum == hashBytes(&head, offsetof(Head, checksum));
  if (isWhole && head.files > 0 && head.files <= kMostSpread && head.limit > 0 &&
      head.limit <= kMostPermits) {
    head.boot[sizeof head.boot - 1] = '\0';
    head_ = head;
    return Found::kValid;
  }
  const bool isZero = isRead && std::memcmp(&head, Head{}.mark, sizeof head.mark) == 0 && head.version == 0 &&
                      contents_.isOwnSize(size);
  if (isMarked || isZero) return Found::kMissing;
  // If no process has the file open as a lock file, it is a file of another kind, for example a text file.
  error = {isOpenElsewhere() ? FileFault::kDamaged : FileFault::kForeign, 0};
  return Found::kOther;
}

bool LockFileHeader::make(const std::string& path, const FileShape& shape, FileError& error) {
  const Nanoseconds end = now() + kMakingFor;
  int number = 0;
  for (LockFile::Answer answer;
       (answer = file_->lock(kMakingByte, false, number)) != LockFile::Answer::kTaken;) {
    if (answer == LockFile::Answer::kFailed || now() > end) {
      error = {answer == LockFile::Answer::kFailed ? FileFault::kFileSystem : FileFault::kBusy, number};
      return false;
    }
    Parker().park(Deadline::at(now() + kMillisecond));
  }
  const Found found = read(error);
  bool done = found != Found::kOther;
  // Preserves H2.
  // mutant: process-makes-an-open-file
  if (done && isOpenElsewhere()) {
    // Other processes have opened the file since the machine started, so a valid header was written since then, too.
    done = found == Found::kValid;
    if (!done) error = {FileFault::kDamaged, 0};
  } else if (done) {
    done = write(found, path, shape, error);
  }
  file_->unlock(kMakingByte);
  return done;
}

// Writes a new header while no other process has the file open. Chooses the base so that new tokens are above all
// tokens in the file.
bool LockFileHeader::write(Found found, const std::string& path, const FileShape& shape, FileError& error) {
  if (found == Found::kMissing) {
    head_.files = static_cast<std::uint16_t>(std::max(shape.files, 1U));
    head_.limit = static_cast<std::uint16_t>(std::max(shape.limit, 1U));
    head_.seed = randomSeed();
  }
  std::vector<LockFile::Identity> made;
  if (!file_->makeParts(path, head_.files - 1, made, error)) return false;
  std::copy(made.begin(), made.end(), head_.parts);
  std::copy(kMark.begin(), kMark.end(), head_.mark);
  head_.version = kVersion;
  std::memset(head_.boot, 0, sizeof head_.boot);
  std::memcpy(head_.boot, boot_.data(), std::min(boot_.size(), sizeof head_.boot - 1));
  head_.base = std::max({head_.base, wallClock() - elapsed(),
                         static_cast<std::int64_t>(contents_.lastToken(*file_)) - elapsed()});
  head_.checksum = hashBytes(&head_, offsetof(Head, checksum));
  const Head head = head_;
  if (int number = 0; !file_->write(&head, sizeof head, number)) {
    error = {FileFault::kOpen, number};
    return false;
  }
  file_->flush();
  return true;
}

std::vector<LockFile::Identity> LockFileHeader::parts() const {
  return {head_.parts, head_.parts + (head_.files - 1)};
}

// Preserves H1: if two processes open the file at the same time with different layouts, each first locks the byte of
// its own layout, and then checks the other bytes. So at least one of the two sees the other's lock.
bool LockFileHeader::agree(FileError& error) {
  struct Layout {
    std::uint64_t seed;
    std::uint64_t files;
    std::uint64_t limit;
    LockFile::Identity parts[kMostSpread - 1];
  } layout{head_.seed, head_.files, head_.limit, {}};
  std::copy(std::begin(head_.parts), std::end(head_.parts), layout.parts);
  const std::uint64_t own = hashBytes(&layout, sizeof layout) % kLayouts;
  const auto othersHave = [&](std::uint64_t from, std::uint64_t to) {
    return from < to && file_->lockedElsewhere(kLayoutBytes + from, to - from);
  };
  LockFile::Answer answer = LockFile::Answer::kRefused;
  bool refused = true;
  const Nanoseconds end = now() + (kAsksByTrying ? kAskFor : 0);
  for (;;) {
    int number = 0;
    if (answer != LockFile::Answer::kTaken) answer = file_->lock(kLayoutBytes + own, true, number);
    if (answer == LockFile::Answer::kFailed) {
      error = {FileFault::kFileSystem, number};
      return false;
    }
    refused = answer != LockFile::Answer::kTaken || othersHave(0, own) || othersHave(own + 1, kLayouts);
    if (!refused || now() >= end) break;
    Parker().park(Deadline::at(now() + kMillisecond));
  }
  // mutant: process-ignores-other-layouts
  if (refused) error = {FileFault::kDamaged, 0};
  return !error;
}

void LockFileHeader::restore(void* memory) const {
  if (std::memcmp(memory, &head_, sizeof head_) != 0) std::memcpy(memory, &head_, sizeof head_);
}

}  // namespace stripelock
