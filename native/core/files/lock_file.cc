// These macros enable locks that belong to an open file, and 64-bit offsets.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64  // NOLINT(bugprone-reserved-identifier): the name is of the C library
#endif

#include "core/files/lock_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "core/base/platform.h"
#include "core/base/seam.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#if defined(__APPLE__)
#include <sys/mount.h>
#include <sys/sysctl.h>
// Older SDKs do not declare these constants of the system.
#ifndef F_OFD_SETLK
#define F_OFD_SETLK 90
#define F_OFD_GETLK 92
#endif
#elif defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif

#if !defined(_WIN32) && !defined(F_OFD_SETLK)
// This system has no locks of open files, so LockFile::open() fails.
#define F_OFD_SETLK (-1)
#define F_OFD_GETLK (-1)
#endif

namespace stripelock {

using ThreadStart = std::function<void()>;

#if defined(_WIN32)

namespace {

OVERLAPPED at(std::uint64_t byte) {
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(byte);
  place.OffsetHigh = static_cast<DWORD>(byte >> 32);
  return place;
}

std::wstring wide(const std::string& text) {
  const int length = MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), nullptr, 0);
  std::wstring result(static_cast<std::size_t>(length), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), result.data(), length);
  return result;
}

}  // namespace

std::unique_ptr<LockFile> LockFile::open(const std::string& path, FileAccess access, FileError& error,
                                         bool make) {
  // With this sharing mode, no process can delete the file while it is open. If the path is a link, the link itself is
  // opened, and refused below.
  HANDLE handle = CreateFileW(wide(path).c_str(), GENERIC_READ | GENERIC_WRITE,
                              FILE_SHARE_READ | FILE_SHARE_WRITE, nullptr, make ? OPEN_ALWAYS : OPEN_EXISTING,
                              FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT, nullptr);
  if (handle == INVALID_HANDLE_VALUE) {
    const DWORD number = GetLastError();
    const DWORD attributes = GetFileAttributesW(wide(path).c_str());
    const bool folder = attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    error = {folder ? FileFault::kKind : FileFault::kOpen, static_cast<int>(number)};
    return nullptr;
  }
  std::unique_ptr<LockFile> file(new LockFile);
  file->file_ = handle;
  file->access_ = access;
  BY_HANDLE_FILE_INFORMATION info{};
  if (!GetFileInformationByHandle(handle, &info)) {
    error = {FileFault::kOpen, static_cast<int>(GetLastError())};
    return nullptr;
  }
  if ((info.dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT)) != 0) {
    error = {FileFault::kKind, 0};
    return nullptr;
  }
  FILE_REMOTE_PROTOCOL_INFO remote{};
  if (GetFileInformationByHandleEx(handle, FileRemoteProtocolInfo, &remote, sizeof remote)) {
    error = {FileFault::kFileSystem, 0};
    return nullptr;
  }
  file->identity_ = {info.dwVolumeSerialNumber,
                     (std::uint64_t{info.nFileIndexHigh} << 32) | info.nFileIndexLow};
  return file;
}

LockFile::~LockFile() {
  if (memory_) UnmapViewOfFile(memory_);
  if (mapping_) CloseHandle(mapping_);
  CloseHandle(file_);
}

LockFile::Answer LockFile::lock(std::uint64_t byte, bool shared, int& number) {
  if (LockFile& other = fileOf(byte); &other != this) return other.lock(byte, shared, number);
  OVERLAPPED place = at(byte);
  const DWORD flags = LOCKFILE_FAIL_IMMEDIATELY | (shared ? 0 : LOCKFILE_EXCLUSIVE_LOCK);
  if (LockFileEx(file_, flags, 0, 1, 0, &place)) return Answer::kTaken;
  number = static_cast<int>(GetLastError());
  return number == ERROR_LOCK_VIOLATION || number == ERROR_IO_PENDING ? Answer::kRefused : Answer::kFailed;
}

void LockFile::unlock(std::uint64_t byte) {
  OVERLAPPED place = at(byte);
  UnlockFileEx(fileOf(byte).file_, 0, 1, 0, &place);
}

bool LockFile::lockedElsewhere(std::uint64_t byte, std::uint64_t count, bool shared) {
  OVERLAPPED place = at(byte);
  LockFile& file = fileOf(byte);
  const auto low = static_cast<DWORD>(count);
  const auto high = static_cast<DWORD>(count >> 32);
  const DWORD flags = LOCKFILE_FAIL_IMMEDIATELY | (shared ? 0 : LOCKFILE_EXCLUSIVE_LOCK);
  if (!LockFileEx(file.file_, flags, 0, low, high, &place)) return true;
  UnlockFileEx(file.file_, 0, low, high, &place);
  return false;
}

bool LockFile::read(void* to, std::size_t bytes, std::uint64_t from) {
  OVERLAPPED place = at(from);
  DWORD count = 0;
  return ReadFile(file_, to, static_cast<DWORD>(bytes), &count, &place) && count == bytes;
}

bool LockFile::write(const void* from, std::size_t bytes, int& number) {
  OVERLAPPED place = at(0);
  DWORD count = 0;
  if (WriteFile(file_, from, static_cast<DWORD>(bytes), &count, &place) && count == bytes) return true;
  number = static_cast<int>(GetLastError());
  return false;
}

bool LockFile::grow(std::size_t bytes, std::size_t, int& number) {
  FILE_END_OF_FILE_INFO end{};
  end.EndOfFile.QuadPart = static_cast<LONGLONG>(bytes);
  if (size() >= bytes || SetFileInformationByHandle(file_, FileEndOfFileInfo, &end, sizeof end)) return true;
  number = static_cast<int>(GetLastError());
  return false;
}

std::uint64_t LockFile::size() const {
  LARGE_INTEGER size{};
  GetFileSizeEx(file_, &size);
  return static_cast<std::uint64_t>(size.QuadPart);
}

void* LockFile::map(std::size_t bytes, std::size_t reserved, int& number) {
  if (memory_) return memory_;
  if (!grow(bytes, reserved, number)) return nullptr;
  mapping_ = CreateFileMappingW(file_, nullptr, PAGE_READWRITE, 0, static_cast<DWORD>(bytes), nullptr);
  memory_ = mapping_ ? MapViewOfFile(mapping_, FILE_MAP_ALL_ACCESS, 0, 0, bytes) : nullptr;
  if (!memory_) number = static_cast<int>(GetLastError());
  return memory_;
}

// On Windows, the file system has reserved disk space for the whole file.
bool LockFile::reserve(const void*) { return true; }

void LockFile::flush() { FlushFileBuffers(file_); }

// On Windows, a mapped file cannot be deleted or truncated.
FileError LockFile::keepWhole() { return {}; }
FileError LockFile::look(const std::string&, std::uint64_t, Nanoseconds) { return {}; }
bool LockFile::isHere(const std::string&) const { return true; }

std::uint32_t processId() { return GetCurrentProcessId(); }

std::string bootId() { return {}; }

bool startThread(std::function<void()> run) {
  auto start = std::make_unique<ThreadStart>(std::move(run));
  const auto begin = [](void* given) -> DWORD {
    const std::unique_ptr<ThreadStart> owned(static_cast<ThreadStart*>(given));
    (*owned)();
    return 0;
  };
  HANDLE thread =
      CreateThread(nullptr, 0, static_cast<LPTHREAD_START_ROUTINE>(begin), start.get(), 0, nullptr);
  if (!thread) return false;
  static_cast<void>(start.release());
  CloseHandle(thread);
  return true;
}

#else

static_assert(sizeof(off_t) == 8);

namespace {

struct flock bytesFrom(std::uint64_t byte, std::uint64_t count, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = static_cast<off_t>(count);
  return lock;
}

Nanoseconds changeTimeOf(const struct stat& info) {
#if defined(__APPLE__)
  const timespec& time = info.st_ctimespec;
#else
  const timespec& time = info.st_ctim;
#endif
  return Nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

LockFile::Identity identityOf(const struct stat& info) {
  return {static_cast<std::uint64_t>(info.st_dev), static_cast<std::uint64_t>(info.st_ino)};
}

mode_t modeOf(FileAccess access) {
  constexpr std::array<mode_t, 3> kModes = {0600, 0660, 0666};
  return kModes[static_cast<std::size_t>(access)];
}

bool isEmpty(const char* path) {
  struct stat info {};
  return lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0;
}

// Always creates the file with O_EXCL. With O_CREAT alone, opening another user's file in /tmp fails on a Linux system
// with fs.protected_regular.
int openOrMake(const char* path, bool make, FileAccess access) {
  // How long other processes wait for the creator to restore the permissions that its umask removed.
  constexpr Nanoseconds kMakingFor = 1'000'000'000;
  const Nanoseconds end = now() + kMakingFor;
  // True while the file may be new, because it has no contents. Once contents are found, the file is opened one last
  // time.
  bool mayBeNew = access != FileAccess::kUser;
  for (;;) {
    // With O_NONBLOCK, the call does not wait for the other end of a pipe.
    int file = ::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (file < 0 && errno == EACCES && mayBeNew && now() < end) {
      STRIPELOCK_SEAM("file: while another process creates it");
      mayBeNew = isEmpty(path);
      if (mayBeNew) Parker().park(Deadline::at(now() + kMillisecond));
      continue;
    }
    if (file >= 0 || errno != ENOENT || !make) return file;
    file = ::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL, modeOf(access));
    if (file >= 0 || errno != EEXIST) return file;
  }
}

// Whether the file gives access to more users than `access` allows. A file for several users may belong to another
// user. The group's permission bits also cover all users that an access control list names.
bool isUnsafe(const struct stat& info, FileAccess access) {
  if (access == FileAccess::kUser && info.st_uid != geteuid()) return true;
  // mutant: process-shares-with-all
  return (info.st_mode & (S_IWGRP | S_IWOTH) & ~modeOf(access)) != 0;
}

bool isOfThisMachine([[maybe_unused]] int file) {
#if defined(__linux__)
  struct statfs system {};
  if (fstatfs(file, &system) != 0) return true;
  // NFS, SMB in three versions, AFS in two, Coda, Ceph, Lustre, 9P. The numbers are in the kernel's headers and in the
  // sources of these file systems.
  constexpr std::array<std::uint32_t, 10> kRemote = {0x6969,     0x517b,     0xff534d42, 0xfe534d42,
                                                     0x5346414f, 0x6b414653, 0x73757245, 0x00c36400,
                                                     0x0bd00bd0, 0x01021997};
  return std::find(kRemote.begin(), kRemote.end(), static_cast<std::uint32_t>(system.f_type)) ==
         kRemote.end();
#elif defined(__APPLE__)
  struct statfs system {};
  return fstatfs(file, &system) != 0 || (system.f_flags & MNT_LOCAL) != 0;
#else
  return true;
#endif
}

}  // namespace

std::unique_ptr<LockFile> LockFile::open(const std::string& path, FileAccess access, FileError& error,
                                         bool make) {
  if (F_OFD_SETLK < 0) {
    error = {FileFault::kSystem, 0};
    return nullptr;
  }
  const int opened = openOrMake(path.c_str(), make, access);
  if (opened < 0) {
    const bool kind = errno == ELOOP || errno == EISDIR || errno == ENXIO || errno == EMLINK;
    error = {kind ? FileFault::kKind : FileFault::kOpen, errno};
    return nullptr;
  }
  std::unique_ptr<LockFile> file(new LockFile);
  file->file_ = opened;
  file->access_ = access;
  struct stat info {};
  if (fstat(opened, &info) != 0) {
    error = {FileFault::kOpen, errno};
    return nullptr;
  }
  if (!S_ISREG(info.st_mode)) {
    error = {FileFault::kKind, 0};
    return nullptr;
  }
  if (!isOfThisMachine(opened)) {
    error = {FileFault::kFileSystem, 0};
    return nullptr;
  }
  if (isUnsafe(info, access)) {
    error = {FileFault::kUnsafe, 0, 0, info.st_uid, info.st_mode & 07777U};
    return nullptr;
  }
  // The umask may have removed permissions of the new file. Or an earlier process created the file, and was killed
  // before it reached this line.
  if (make && info.st_size == 0 && info.st_uid == geteuid()) {
    STRIPELOCK_SEAM("file: before it has its permissions");
    static_cast<void>(fchmod(opened, modeOf(access)));
  }
  file->identity_ = identityOf(info);
  return file;
}

LockFile::~LockFile() {
  if (memory_) munmap(memory_, mapped_);
  ::close(file_);
}

LockFile::Answer LockFile::lock(std::uint64_t byte, bool shared, int& number) {
  struct flock request = bytesFrom(byte, 1, shared ? F_RDLCK : F_WRLCK);
  if (fcntl(fileOf(byte).file_, F_OFD_SETLK, &request) == 0) return Answer::kTaken;
  number = errno;
  // EINTR: a signal interrupted the call. It counts as a refusal, after which the caller retries.
  return number == EAGAIN || number == EACCES || number == EINTR ? Answer::kRefused : Answer::kFailed;
}

void LockFile::unlock(std::uint64_t byte) {
  struct flock request = bytesFrom(byte, 1, F_UNLCK);
  static_cast<void>(fcntl(fileOf(byte).file_, F_OFD_SETLK, &request));
}

bool LockFile::lockedElsewhere(std::uint64_t byte, std::uint64_t count, bool shared) {
  struct flock request = bytesFrom(byte, count, shared ? F_RDLCK : F_WRLCK);
  return fcntl(fileOf(byte).file_, F_OFD_GETLK, &request) == 0 && request.l_type != F_UNLCK;
}

bool LockFile::read(void* to, std::size_t bytes, std::uint64_t from) {
  return pread(file_, to, bytes, static_cast<off_t>(from)) == static_cast<ssize_t>(bytes);
}

bool LockFile::write(const void* from, std::size_t bytes, int& number) {
  const ssize_t written = pwrite(file_, from, bytes, 0);
  number = written < 0 ? errno : 0;
  return written == static_cast<ssize_t>(bytes);
}

namespace {

// Reserves room on the disk if the file system supports that.
bool allocate([[maybe_unused]] int file, [[maybe_unused]] std::size_t from,
              [[maybe_unused]] std::size_t bytes, [[maybe_unused]] int& number) {
#if defined(__linux__)
  if (fallocate(file, 0, static_cast<off_t>(from), static_cast<off_t>(bytes)) != 0 && errno != EOPNOTSUPP &&
      errno != ENOSYS) {
    number = errno;
    return false;
  }
#endif
  return true;
}

std::size_t pageSize() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

bool LockFile::grow(std::size_t bytes, std::size_t reserved, int& number) {
  if (!allocate(file_, 0, reserved, number)) return false;
  if (size() >= bytes || ftruncate(file_, static_cast<off_t>(bytes)) == 0) return true;
  number = errno;
  return false;
}

std::uint64_t LockFile::size() const {
  struct stat info {};
  return fstat(file_, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

void* LockFile::map(std::size_t bytes, std::size_t reserved, int& number) {
  if (memory_) return memory_;
  if (!grow(bytes, reserved, number)) return nullptr;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) {
    number = errno;
    return nullptr;
  }
  memory_ = memory;
  mapped_ = bytes;
  reserved_ = reserved;
  hasRoom_.assign(bytes / pageSize() + 1, false);
  return memory;
}

bool LockFile::reserve(const void* address) {
  const auto offset =
      static_cast<std::size_t>(static_cast<const char*>(address) - static_cast<const char*>(memory_));
  const std::size_t page = offset / pageSize();
  if (hasRoom_[page] || detached_) return true;
  int number = 0;
  const std::size_t from = page * pageSize();
  if (!allocate(file_, from, std::min(pageSize(), mapped_ - from), number)) return false;
  hasRoom_[page] = true;
  return true;
}

void LockFile::flush() { static_cast<void>(fsync(file_)); }

FileError LockFile::keepWhole() {
  struct stat info {};
  if (fstat(file_, &info) != 0) return {FileFault::kOpen, errno};
  return keepWhole(info);
}

FileError LockFile::keepWhole(const struct stat& info) {
  const bool cut = static_cast<std::size_t>(info.st_size) < mapped_ || info.st_blocks < blocks_;
  blocks_ = info.st_blocks;
  const FileError whole{info.st_nlink == 0 ? FileFault::kReplaced : FileFault::kNone, 0};
  if (!cut && !detached_) return whole;
  if (cut) {
    ++cuts_;
    hasRoom_.assign(hasRoom_.size(), false);
  }
  int number = 0;
  if (!grow(mapped_, reserved_, number)) {
    // Replaces the mapping of the file with private memory at the same addresses.
    if (!detached_ && mmap(memory_, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                           -1, 0) != MAP_FAILED)
      detached_ = true;
    return {FileFault::kOpen, number};
  }
  if (detached_) {
    if (mmap(memory_, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0) == MAP_FAILED)
      return {FileFault::kOpen, errno};
    detached_ = false;
  }
  struct stat grown {};
  if (fstat(file_, &grown) == 0) blocks_ = grown.st_blocks;
  return whole;
}

FileError LockFile::look(const std::string& path, std::uint64_t byte, Nanoseconds time) {
  struct stat info {};
  if (fstat(file_, &info) != 0) return {FileFault::kOpen, errno};
  if (const FileError error = keepWhole(info)) return error;
  // A check of the path costs three times as much as fstat(), so the path is checked only for kTicks after the file's
  // change time (ctime) has changed. A rename changes ctime, and so does the first write to a page after some seconds.
  // Two changes in a row may get the same ctime, because the file system's clock may advance only every 10 ms.
  constexpr Nanoseconds kTicks = 50 * kMillisecond;
  const Nanoseconds changed = changeTimeOf(info);
  if (changed != changed_) changeSeenAt_ = time;
  changed_ = changed;
  // mutant: process-overlooks-a-rename
  if (time - changeSeenAt_ < kTicks && !isHere(path)) return {FileFault::kReplaced, 0};
  // A process refuses to open a lock file with a missing part, so the paths of the parts need no check.
  const LockFile& part = fileOf(byte);
  if (&part != this && (fstat(part.file_, &info) != 0 || info.st_nlink == 0))
    return {FileFault::kReplaced, 0};
  return {};
}

bool LockFile::isHere(const std::string& path) const {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && identityOf(info) == identity_;
}

std::uint32_t processId() {
  // Cached, because each getpid() is a system call. A forked process does not use the addon.
  static const auto id = static_cast<std::uint32_t>(getpid());
  return id;
}

std::string bootId() {
  std::array<char, 40> text{};
#if defined(__linux__)
  const int file = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t length = ::read(file, text.data(), 36);
  ::close(file);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
#elif defined(__APPLE__)
  std::size_t length = text.size();
  if (sysctlbyname("kern.bootsessionuuid", text.data(), &length, nullptr, 0) != 0) return {};
  return {text.data()};
#else
  return {};
#endif
}

bool startThread(std::function<void()> run) {
  auto start = std::make_unique<ThreadStart>(std::move(run));
  const auto begin = [](void* given) -> void* {
    const std::unique_ptr<ThreadStart> owned(static_cast<ThreadStart*>(given));
    (*owned)();
    return nullptr;
  };
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const bool started = pthread_create(&thread, &detached, begin, start.get()) == 0;
  pthread_attr_destroy(&detached);
  if (started) static_cast<void>(start.release());
  return started;
}

#endif

LockFile& LockFile::fileOf(std::uint64_t byte) {
  if (more_.empty() || byte < spreadFrom_) return *this;
  const std::size_t index = byte % (more_.size() + 1);
  return index == 0 ? *this : *more_[index - 1];
}

namespace {

std::string pathOfPart(const std::string& path, std::size_t index) {
  return path + "." + std::to_string(index + 1);
}

}  // namespace

bool LockFile::makeParts(const std::string& path, std::size_t count, std::vector<Identity>& parts,
                         FileError& error) const {
  parts.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const std::unique_ptr<LockFile> part = open(pathOfPart(path, i), access_, error);
    if (!part) {
      error.part = static_cast<std::uint32_t>(i + 1);
      return false;
    }
    parts.push_back(part->identity());
  }
  return true;
}

bool LockFile::spread(const std::string& path, const std::vector<Identity>& parts, std::uint64_t first,
                      FileError& error) {
  std::vector<std::unique_ptr<LockFile>> files;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    FileError reason;
    files.push_back(open(pathOfPart(path, i), access_, reason, false));
    reason.part = static_cast<std::uint32_t>(i + 1);
    const bool isMissing = !files.back() && reason.fault == FileFault::kOpen && reason.number == ENOENT;
    if (!files.back() && !isMissing) {
      error = reason;
      return false;
    }
    if (isMissing || !(files.back()->identity() == parts[i])) {
      error = {FileFault::kParts, 0};
      return false;
    }
  }
  more_ = std::move(files);
  spreadFrom_ = first;
  return true;
}

bool LockFile::isAt(const std::string& path) const {
  for (std::size_t i = 0; i < more_.size(); ++i) {
    if (!more_[i]->isHere(pathOfPart(path, i))) return false;
  }
  return isHere(path);
}

bool WakeWord::isReachable() const { return word_.load() != &own_; }

std::uint32_t WakeWord::wakes() const { return word_.load()->load(); }

#if defined(__linux__) && !defined(STRIPELOCK_PORTABLE_PARK)

void WakeWord::use(Word* word) { word_.store(word ? word : &own_); }

void WakeWord::sleep(Lock& lock, std::uint32_t seen, Nanoseconds most) {
  Word& word = *word_.load();
  lock.unlock();
  timespec time{};
  time.tv_sec = static_cast<time_t>(most / 1'000'000'000);
  time.tv_nsec = static_cast<long>(most % 1'000'000'000);
  // The futex is not private to this process, because another process may wake this thread. If a truncation of the file
  // removed the memory, the call fails at once.
  if (syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0) != 0 && errno == EFAULT) {
    nanosleep(&time, nullptr);
  }
  lock.lock();
}

void WakeWord::wake() { static_cast<void>(wakeAt(*word_.load())); }

// The kernel adds 1 to the word and wakes the threads in one call. So if a truncation of the file removed the memory,
// the call fails, but the process survives.
bool WakeWord::wakeAt(Word& word) {
  return syscall(SYS_futex, &word, FUTEX_WAKE_OP, INT_MAX, nullptr, &word,
                 FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_LT, 0)) != 0;
}

#else

// On these systems, a process cannot wake a thread of another process.
void WakeWord::use(Word*) {}

void WakeWord::sleep(Lock& lock, std::uint32_t seen, Nanoseconds most) {
  lock.unlock();
  sleepOn(own_, seen, Deadline::at(now() + most));
  lock.lock();
}

void WakeWord::wake() {
  own_.fetch_add(1);
  wakeAll(own_);
}

bool WakeWord::wakeAt(Word&) { return true; }

#endif

}  // namespace stripelock
