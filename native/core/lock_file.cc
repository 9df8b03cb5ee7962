// For the locks of open files, and for offsets of 64 bits.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64  // NOLINT(bugprone-reserved-identifier): the name is of the C library
#endif

#include "core/lock_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "core/platform.h"

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
// Older SDKs do not declare what the systems have.
#ifndef F_OFD_SETLK
#define F_OFD_SETLK 90
#define F_OFD_GETLK 92
#endif
#elif defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif

namespace stripelock {

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

std::unique_ptr<LockFile> LockFile::open(const std::string& path, FileError& error) {
  // Who has it open keeps others from deleting it. A link would be opened itself, and is refused below.
  HANDLE handle =
      CreateFileW(wide(path).c_str(), GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                  nullptr, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT, nullptr);
  if (handle == INVALID_HANDLE_VALUE) {
    const DWORD number = GetLastError();
    const DWORD attributes = GetFileAttributesW(wide(path).c_str());
    const bool folder = attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    error = {folder ? FileFault::kKind : FileFault::kOpen, static_cast<int>(number)};
    return nullptr;
  }
  std::unique_ptr<LockFile> file(new LockFile);
  file->file_ = handle;
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

bool LockFile::lockedElsewhere(std::uint64_t byte) {
  int number = 0;
  if (lock(byte, false, number) != Answer::kTaken) return true;
  unlock(byte);
  return false;
}

bool LockFile::read(void* to, std::size_t bytes) {
  OVERLAPPED place = at(0);
  DWORD count = 0;
  return ReadFile(file_, to, static_cast<DWORD>(bytes), &count, &place) && count == bytes;
}

bool LockFile::write(const void* from, std::size_t bytes) {
  OVERLAPPED place = at(0);
  DWORD count = 0;
  return WriteFile(file_, from, static_cast<DWORD>(bytes), &count, &place) && count == bytes;
}

bool LockFile::grow(std::size_t bytes, int& number) {
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

void* LockFile::map(std::size_t bytes, int& number) {
  if (memory_) return memory_;
  mapping_ = CreateFileMappingW(file_, nullptr, PAGE_READWRITE, 0, static_cast<DWORD>(bytes), nullptr);
  memory_ = mapping_ ? MapViewOfFile(mapping_, FILE_MAP_ALL_ACCESS, 0, 0, bytes) : nullptr;
  if (!memory_) number = static_cast<int>(GetLastError());
  return memory_;
}

void LockFile::flush() { FlushFileBuffers(file_); }

// Windows neither deletes nor cuts a file that somebody has mapped.
FileFault LockFile::look(std::uint64_t) { return FileFault::kNone; }
bool LockFile::isHere(const std::string&) const { return true; }

std::uint32_t processId() { return GetCurrentProcessId(); }

std::string bootId() { return {}; }

bool startThread(void (*run)(void* data), void* data) {
  struct Start {
    void (*run)(void* data);
    void* data;
  };
  auto* const start = new Start{run, data};
  const auto begin = [](void* given) -> DWORD {
    const std::unique_ptr<Start> owned(static_cast<Start*>(given));
    owned->run(owned->data);
    return 0;
  };
  HANDLE thread = CreateThread(nullptr, 0, static_cast<LPTHREAD_START_ROUTINE>(begin), start, 0, nullptr);
  if (!thread) {
    delete start;
    return false;
  }
  CloseHandle(thread);
  return true;
}

#else

static_assert(sizeof(off_t) == 8);

namespace {

struct flock byteOf(std::uint64_t byte, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return lock;
}

int openExisting(const char* path) {
  // Neither waits for the other end of a pipe.
  return ::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
}

// Never O_CREAT alone: fs.protected_regular refuses that for a file of another user in a folder like /tmp.
int openOrMake(const char* path, bool& made) {
  for (;;) {
    int file = openExisting(path);
    if (file >= 0 || errno != ENOENT) return file;
    file = ::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL, 0600);
    made = file >= 0;
    if (file >= 0 || errno != EEXIST) return file;
  }
}

bool isOfThisMachine(int file) {
#if defined(__linux__)
  struct statfs system {};
  if (fstatfs(file, &system) != 0) return true;
  // NFS, SMB in three versions, AFS in two, Coda, Ceph, Lustre, 9P. The numbers are in the kernel's headers and in the systems' sources.
  constexpr std::array<std::uint32_t, 10> kRemote = {0x6969,     0x517b,     0xff534d42, 0xfe534d42,
                                                     0x5346414f, 0x6b414653, 0x73757245, 0x00c36400,
                                                     0x0bd00bd0, 0x01021997};
  return std::find(kRemote.begin(), kRemote.end(), static_cast<std::uint32_t>(system.f_type)) ==
         kRemote.end();
#elif defined(__APPLE__)
  struct statfs system {};
  return fstatfs(file, &system) != 0 || (system.f_flags & MNT_LOCAL) != 0;
#else
  static_cast<void>(file);
  return true;
#endif
}

}  // namespace

std::unique_ptr<LockFile> LockFile::open(const std::string& path, FileError& error) {
#ifndef F_OFD_SETLK
  static_cast<void>(path);
  error = {FileFault::kSystem, 0};
  return nullptr;
#else
  bool made = false;
  const int opened = openOrMake(path.c_str(), made);
  if (opened < 0) {
    const bool kind = errno == ELOOP || errno == EISDIR || errno == ENXIO || errno == EMLINK;
    error = {kind ? FileFault::kKind : FileFault::kOpen, errno};
    return nullptr;
  }
  std::unique_ptr<LockFile> file(new LockFile);
  file->file_ = opened;
  // Whatever the process's umask is.
  if (made) static_cast<void>(fchmod(opened, 0600));
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
  file->identity_ = {static_cast<std::uint64_t>(info.st_dev), static_cast<std::uint64_t>(info.st_ino)};
  return file;
#endif
}

LockFile::~LockFile() {
  if (memory_) munmap(memory_, mapped_);
  ::close(file_);
}

#ifdef F_OFD_SETLK

LockFile::Answer LockFile::lock(std::uint64_t byte, bool shared, int& number) {
  struct flock request = byteOf(byte, shared ? F_RDLCK : F_WRLCK);
  if (fcntl(fileOf(byte).file_, F_OFD_SETLK, &request) == 0) return Answer::kTaken;
  number = errno;
  // EINTR: a signal came first. The caller tries again as for a byte that somebody has.
  return number == EAGAIN || number == EACCES || number == EINTR ? Answer::kRefused : Answer::kFailed;
}

void LockFile::unlock(std::uint64_t byte) {
  struct flock request = byteOf(byte, F_UNLCK);
  static_cast<void>(fcntl(fileOf(byte).file_, F_OFD_SETLK, &request));
}

bool LockFile::lockedElsewhere(std::uint64_t byte) {
  struct flock request = byteOf(byte, F_WRLCK);
  return fcntl(fileOf(byte).file_, F_OFD_GETLK, &request) == 0 && request.l_type != F_UNLCK;
}

#else

LockFile::Answer LockFile::lock(std::uint64_t, bool, int&) { return Answer::kFailed; }
void LockFile::unlock(std::uint64_t) {}
bool LockFile::lockedElsewhere(std::uint64_t) { return false; }

#endif

bool LockFile::read(void* to, std::size_t bytes) {
  return pread(file_, to, bytes, 0) == static_cast<ssize_t>(bytes);
}

bool LockFile::write(const void* from, std::size_t bytes) {
  return pwrite(file_, from, bytes, 0) == static_cast<ssize_t>(bytes);
}

bool LockFile::grow(std::size_t bytes, int& number) {
  if (size() >= bytes) return true;
  const auto length = static_cast<off_t>(bytes);
#if defined(__linux__)
  // To write into a hole of a full disk would end the process.
  if (fallocate(file_, 0, 0, length) == 0) return true;
  number = errno;
  if (number != EOPNOTSUPP && number != ENOSYS) return false;
#endif
  if (ftruncate(file_, length) == 0) return true;
  number = errno;
  return false;
}

std::uint64_t LockFile::size() const {
  struct stat info {};
  return fstat(file_, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

void* LockFile::map(std::size_t bytes, int& number) {
  if (memory_) return memory_;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) {
    number = errno;
    return nullptr;
  }
  memory_ = memory;
  mapped_ = bytes;
  return memory;
}

void LockFile::flush() {
#if defined(__APPLE__)
  static_cast<void>(fsync(file_));
#else
  static_cast<void>(fdatasync(file_));
#endif
}

FileFault LockFile::look(std::uint64_t byte) {
  struct stat info {};
  if (fstat(file_, &info) != 0) return FileFault::kOpen;
  if (info.st_nlink == 0) return FileFault::kReplaced;
  int number = 0;
  if (static_cast<std::size_t>(info.st_size) < mapped_ && !grow(mapped_, number)) return FileFault::kOpen;
  LockFile& other = fileOf(byte);
  return &other == this ? FileFault::kNone : other.look();
}

bool LockFile::isHere(const std::string& path) const {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && static_cast<std::uint64_t>(info.st_dev) == identity_.device &&
         static_cast<std::uint64_t>(info.st_ino) == identity_.file;
}

std::uint32_t processId() {
  // A call into the system each time. Nobody forks this process and goes on using the addon.
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

bool startThread(void (*run)(void* data), void* data) {
  struct Start {
    void (*run)(void* data);
    void* data;
  };
  auto* const start = new Start{run, data};
  const auto begin = [](void* given) -> void* {
    const std::unique_ptr<Start> owned(static_cast<Start*>(given));
    owned->run(owned->data);
    return nullptr;
  };
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const bool started = pthread_create(&thread, &detached, begin, start) == 0;
  pthread_attr_destroy(&detached);
  if (!started) delete start;
  return started;
}

#endif

LockFile& LockFile::fileOf(std::uint64_t byte) {
  if (more_.empty() || byte < spreadFrom_) return *this;
  const std::size_t index = byte % (more_.size() + 1);
  return index == 0 ? *this : *more_[index - 1];
}

bool LockFile::spread(const std::string& path, std::uint32_t files, std::uint64_t first, FileError& error) {
  spreadFrom_ = first;
  for (std::uint32_t i = 1; i < files; ++i) {
    more_.push_back(open(path + "." + std::to_string(i), error));
    if (!more_.back()) return false;
  }
  return true;
}

bool LockFile::isAt(const std::string& path) const {
  for (std::size_t i = 0; i < more_.size(); ++i) {
    if (!more_[i]->isHere(path + "." + std::to_string(i + 1))) return false;
  }
  return isHere(path);
}

bool Bell::isReachable() const { return word_ != &own_; }

std::uint32_t Bell::listen() const { return word_->load(); }

#if defined(__linux__) && !defined(STRIPELOCK_PORTABLE_PARK)

void Bell::hang(Word* word) { word_ = word ? word : &own_; }

void Bell::sleep(Lock& lock, std::uint32_t heard, Nanoseconds most) {
  Word& word = *word_;
  lock.unlock();
  timespec time{};
  time.tv_sec = static_cast<time_t>(most / 1'000'000'000);
  time.tv_nsec = static_cast<long>(most % 1'000'000'000);
  // Not a private futex: another process wakes it. If the memory is gone, because somebody has cut the file, the kernel
  // says so at once.
  if (syscall(SYS_futex, &word, FUTEX_WAIT, heard, &time, nullptr, 0) != 0 && errno == EFAULT) {
    nanosleep(&time, nullptr);
  }
  lock.lock();
}

void Bell::ring() { ringAt(*word_); }

// The kernel adds 1 and wakes, so that memory which is gone fails here, too, instead of ending the process.
void Bell::ringAt(Word& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_OP, INT_MAX, nullptr, &word,
          FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_LT, 0));
}

#else

// No process wakes a thread of another one here.
void Bell::hang(Word*) {}

void Bell::sleep(Lock& lock, std::uint32_t heard, Nanoseconds most) {
  lock.unlock();
  sleepOn(own_, heard, Deadline::at(now() + most));
  lock.lock();
}

void Bell::ring() {
  own_.fetch_add(1);
  wakeAll(own_);
}

void Bell::ringAt(Word&) {}

#endif

}  // namespace stripelock
