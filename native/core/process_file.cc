#include "core/process_file.h"

#include <algorithm>
#include <utility>

#include "core/hash.h"
#include "core/inspect.h"
#include "core/participant.h"
#include "core/platform.h"
#include "core/table.h"

namespace stripelock {

namespace {

// How long the file's thread sleeps at most before it looks whether a key's holder was killed, if its process has waited
// longest; if not, then it only matters where the one that has is stopped. A hundred processes that wait take so little of
// a processor only with the longer one.
constexpr Nanoseconds kNear = 10 * kMillisecond;
constexpr Nanoseconds kFar = 250 * kMillisecond;
// Where no other process can wake this one, it tries again after this time, and then after twice as long each time.
constexpr Nanoseconds kFirstPoll = kMillisecond;
// The thread of a file ends when it had nothing to do for this long.
constexpr Nanoseconds kIdle = 200 * kMillisecond;
// How long the file counts as whole after it was looked at. An acquisition looks again in any case once it has a byte.
constexpr Nanoseconds kFresh = kMillisecond;
// How often a process looks at the paths of all files, and for a free slot if it has none.
constexpr Nanoseconds kLookAtPaths = 100 * kMillisecond;
// The time on the clock that processes share. A wait that began before the machine was suspended may seem shorter.
Nanoseconds toElapsed(Nanoseconds time) { return time == 0 ? elapsed() : elapsed() - (now() - time); }

// The open files of this process. Never destroyed: threads may outlast the process's exit handlers.
struct OpenFiles {
  // Locked before all others. Opening a file may take seconds, and ends none of them.
  Mutex opening;
  Mutex mutex;
  std::vector<std::weak_ptr<ProcessFile>> files;

  static OpenFiles& instance() {
    static auto* const files = new OpenFiles;
    return *files;
  }
};

// Whether two open files of this process exclude each other, as they do where the system and the file system keep such locks.
bool excludes(LockFile& file, const std::string& path, FileError& error) {
  const std::unique_ptr<LockFile> other = LockFile::open(path, error);
  if (!other) return false;
  if (!(other->identity() == file.identity())) {
    error = {FileFault::kReplaced, 0};
    return false;
  }
  const std::uint64_t byte = kProbeBytes + randomSeed() % kProbes;
  int number = 0;
  // A refusal proves that the locks work: another process tries the same byte now. Only two locks of one byte prove that they
  // do not.
  const LockFile::Answer first = file.lock(byte, false, number);
  const LockFile::Answer second =
      first == LockFile::Answer::kTaken ? other->lock(byte, false, number) : first;
  file.unlock(byte);
  // mutant: process-takes-a-refusal-for-a-fault
  if (second != LockFile::Answer::kRefused) error = {FileFault::kFileSystem, number};
  return !error;
}

}  // namespace

// ── opening ──

ProcessFile::ProcessFile(std::unique_ptr<LockFile> file, std::string path)
    : shared_(kTokenBytes + byteLengthFor(kMostKeys)),
      keys_(kMostKeys),
      file_(std::move(file)),
      path_(std::move(path)) {}

ProcessFile::~ProcessFile() = default;

std::shared_ptr<ProcessFile> ProcessFile::find(const LockFile::Identity& identity, const std::string& path,
                                               FileError& error) {
  OpenFiles& open = OpenFiles::instance();
  const Lock lock(open.mutex);
  std::erase_if(open.files, [](const std::weak_ptr<ProcessFile>& file) { return file.expired(); });
  for (const std::weak_ptr<ProcessFile>& each : open.files) {
    const std::shared_ptr<ProcessFile> file = each.lock();
    if (!file) continue;
    const Lock using_(file->mutex_);
    if (!file->file_ || !(file->file_->identity() == identity)) continue;
    // The path is another name of the file, and the files beside it are missing or different.
    if (!file->file_->isAt(path)) {
      error = {FileFault::kParts, 0};
      return nullptr;
    }
    file->openAgain(path);
    ++file->users_;
    return file;
  }
  return nullptr;
}

std::shared_ptr<ProcessFile> ProcessFile::open(const std::string& path, const std::string& title,
                                               std::uint32_t files, FileError& error) {
  OpenFiles& open = OpenFiles::instance();
  const Lock opening(open.opening);
  std::unique_ptr<LockFile> opened = LockFile::open(path, error);
  if (!opened) return nullptr;
  // No lock is lost when the descriptor that was not needed is closed: it is another open file.
  if (std::shared_ptr<ProcessFile> known = find(opened->identity(), path, error)) {
    if (files == 0 || files == known->page_.files()) return known;
    error = {FileFault::kFiles, static_cast<int>(known->page_.files())};
    known->close();
    return nullptr;
  }
  if (error || !excludes(*opened, path, error)) return nullptr;
  std::shared_ptr<ProcessFile> file = findClosed(path);
  if (file) {
    file->reopen(std::move(opened));
  } else {
    file = std::make_shared<ProcessFile>(std::move(opened), path);
    const Lock lock(open.mutex);
    open.files.push_back(file);
  }
  if (file->openPage(title, files, error)) return file;
  file->close();
  return nullptr;
}

std::shared_ptr<ProcessFile> ProcessFile::findClosed(const std::string& path) {
  OpenFiles& open = OpenFiles::instance();
  const Lock lock(open.mutex);
  for (const std::weak_ptr<ProcessFile>& each : open.files) {
    if (std::shared_ptr<ProcessFile> file = each.lock()) {
      const Lock using_(file->mutex_);
      if (!file->file_ && file->path_ == path) return file;
    }
  }
  return nullptr;
}

void ProcessFile::reopen(std::unique_ptr<LockFile> file) {
  const Lock lock(mutex_);
  file_ = std::move(file);
  page_ = ProcessPage();
  kept_.clear();
  users_ = 1;
  cuts_ = 0;
  lookedAt_ = 0;
  openAgain(path_);
}

bool ProcessFile::openPage(const std::string& title, std::uint32_t files, FileError& error) {
  const Lock lock(mutex_);
  if (!page_.open(*file_, path_, title, files, error)) return false;
  bell_.hang(page_.bell());
  return true;
}

void ProcessFile::openAgain(const std::string& path) {
  path_ = path;
  replaced_ = false;
  checkedAt_ = 0;
}

void ProcessFile::close() {
  const Lock lock(mutex_);
  drop(1);
}

void ProcessFile::drop(std::size_t users) {
  users_ -= users;
  if (users_ > 0) return;
  bell_.hang(nullptr);
  file_.reset();
}

void ProcessFile::attach(std::weak_ptr<Table> table) {
  const Lock lock(mutex_);
  table_ = std::move(table);
}

FileError ProcessFile::refresh() {
  const Nanoseconds time = now();
  return time - checkedAt_ < kFresh ? checked_ : checked(file_->keepWhole(), time);
}

FileError ProcessFile::verify(std::uint64_t byte) {
  const Nanoseconds time = now();
  return checked(file_->look(path_, byte, time), time);
}

FileError ProcessFile::checked(const FileError& found, Nanoseconds time) {
  checkedAt_ = time;
  if (cuts_ != file_->cuts()) page_.restore();
  cuts_ = file_->cuts();
  replaced_ = replaced_ || found.fault == FileFault::kReplaced;
  if (time - lookedAt_ >= kLookAtPaths) {
    lookedAt_ = time;
    toWall_ = wallClock() - time;
    replaced_ = replaced_ || !file_->isAt(path_);
    page_.restore();
    if (page_.slot() == kNoSlot && page_.claimSlot()) {
      // The file's thread sleeps on the word of this process. It looks again, and then sleeps on the slot's.
      bell_.ring();
      bell_.hang(page_.bell());
    }
  }
  checked_ = replaced_ ? FileError{FileFault::kReplaced, 0} : found;
  return checked_;
}

// ── bytes ──

ProcessFile::Locked ProcessFile::lock(Key& key, const Ask& ask, FileError& error) {
  const bool shared = isCounted(ask.mode);
  if (replaced_) {
    error = {FileFault::kReplaced, 0};
    return Locked::kFailed;
  }
  int number = 0;
  switch (file_->lock(key.byte, shared, number)) {
    case LockFile::Answer::kRefused:
      return Locked::kNo;
    case LockFile::Answer::kFailed:
      error = {FileFault::kLock, number};
      return Locked::kFailed;
    case LockFile::Answer::kTaken:
      break;
  }
  // After the lock, not before: so the file was at its path when the process got the byte. And before the page is touched.
  error = verify(key.byte);
  // mutant: process-looks-before-it-locks
  if (error.fault != FileFault::kNone) {
    file_->unlock(key.byte);
    return Locked::kFailed;
  }
  const int before =
      page_.isAwaited(key.byte) ? page_.goesBefore(key.byte, shared, toElapsed(ask.since)) : kNoSlot;
  if (before != kNoSlot) {
    // That process may have been refused just now. No other is woken: processes that must wait for it would wake each other
    // until it comes.
    file_->unlock(key.byte);
    // mutant: process-wakes-those-behind
    page_.wake(before);
    return Locked::kNo;
  }
  key.shared = shared;
  return Locked::kYes;
}

ProcessFile::Locked ProcessFile::take(std::uint32_t stripe, const Ask& ask, Entry& entry) {
  Key& key = keyAt(stripe);
  if (key.holders == 0) {
    const Locked locked = lock(key, ask, entry.error);
    if (locked != Locked::kYes) return locked;
    key.since = static_cast<double>(checkedAt_ + toWall_) / 1e6;
    if (page_.hold(key.byte, key.shared, {ask.threadId, key.since, ask.table.keys()->keyOf(stripe)},
                   key.place))
      entry.abandoned = true;
  } else {
    if (const FileError error = refresh()) {
      entry.error = error;
      return Locked::kFailed;
    }
    // Readers of this process must not keep out a writer of another one that has waited longer.
    // mutant: process-joins-past-writers
    if (page_.goesBefore(key.byte, true, toElapsed(ask.since)) != kNoSlot) return Locked::kNo;
    if (page_.isAbandoned(key.byte)) entry.abandoned = true;
  }
  ++key.holders;
  ++users_;
  return Locked::kYes;
}

Gate::Entry ProcessFile::enter(const Ask& ask) {
  const Lock lock(mutex_);
  Entry entry;
  if (!file_) return {.how = Entry::How::kFailed, .error = {FileFault::kReplaced, 0}};
  order_.clear();
  for (std::uint32_t i = 0; i < ask.count; ++i) {
    Key& key = keyAt(ask.stripes[i]);
    if (key.holders == 0) key.byte = page_.byteOf(ask.table.keys()->keyOf(ask.stripes[i]));
    order_.emplace_back(key.byte, i);
  }
  // Linux keeps a list of the locks of a file, by byte, and searches it from the lowest one: so the highest is locked first and
  // unlocked last.
  if (ask.count > 1) std::sort(order_.rbegin(), order_.rend());
  std::size_t taken = 0;
  while (taken < order_.size() && entry.how == Entry::How::kEntered) {
    switch (take(ask.stripes[order_[taken].second], ask, entry)) {
      case Locked::kYes:
        ++taken;
        break;
      case Locked::kNo:
        entry.how = Entry::How::kRefused;
        break;
      case Locked::kFailed:
        entry.how = Entry::How::kFailed;
        break;
    }
  }
  if (entry.how == Entry::How::kEntered) {
    for (const auto& [byte, index] : order_) {
      const Key& key = keyAt(ask.stripes[index]);
      page_.takeTurn(byte);
      dropKept(ask.stripes[index]);
      // mutant: process-never-waits-anew
      if (key.enrolled) page_.servedWaiter(byte, toElapsed(ask.since));
      if (!key.watched) withdraw(ask.stripes[index]);
    }
    issueToken(ask);
    return entry;
  }
  entry.refused = order_[taken].second;
  const std::uint32_t refused = ask.stripes[entry.refused];
  if (entry.how == Entry::How::kRefused && ask.waits && !ask.blocks && !watch()) {
    entry.how = Entry::How::kFailed;
    entry.error = {FileFault::kLock, 0};
  }
  const bool waits = entry.how == Entry::How::kRefused && ask.waits;
  dropKept(refused);
  const ProcessPage::Wait wait{isCounted(ask.mode), toElapsed(ask.since), ask.threadId};
  while (taken > 0) {
    const auto& [byte, index] = order_[--taken];
    // mutant: process-keeps-no-turns
    const bool keeps = waits;
    if (giveBack(ask.stripes[index], 1, entry.abandoned, keeps ? &wait : nullptr) && keeps)
      kept_.push_back({ask.stripes[index], byte, refused});
  }
  entry.abandoned = false;
  return entry;
}

bool ProcessFile::giveBack(std::uint32_t stripe, std::uint32_t count, bool died,
                           const ProcessPage::Wait* waits) {
  Key& key = keyAt(stripe);
  key.holders -= count;
  users_ -= count;
  // Keeps L1.
  // mutant: process-forgets-shared-early
  if (key.holders > 0) return false;
  static_cast<void>(refresh());
  // What an acquisition has learned and nobody was told of is left for the next one (keeps G1).
  // mutant: process-hides-the-dead
  if (key.shared || !died) page_.leave(key.byte, key.place);
  const bool isKept = waits ? page_.keepTurn(key.byte, *waits)
                            : page_.isAwaited(key.byte) && page_.giveTurn(key.byte, elapsed());
  file_->unlock(key.byte);
  if (!waits || !isKept) page_.wakeNext(key.byte);
  return isKept;
}

bool ProcessFile::leave(std::uint32_t stripe, std::uint32_t count, bool died, bool awaited) {
  const Lock lock(mutex_);
  // mutant: process-wakes-own-in-vain
  const bool cedes = giveBack(stripe, count, died) && awaited;
  drop(0);
  return cedes;
}

void ProcessFile::issueToken(const Ask& ask) {
  bytes_.clear();
  for (std::uint32_t i = 0; i < ask.count; ++i) bytes_.push_back(keyAt(ask.stripes[i]).byte);
  lastToken_ = page_.issueToken(bytes_.data(), bytes_.size(), lastToken_);
  for (std::uint32_t i = 0; i < ask.count; ++i)
    tokenAt(ask.stripes[i]).store(lastToken_, std::memory_order_relaxed);
}

// ── waiting ──

void ProcessFile::settled(std::uint32_t stripe, bool ceded, bool free) {
  Key& key = keyAt(stripe);
  if (!ceded && !key.watched && !key.enrolled) return;
  const Lock lock(mutex_);
  if (ceded && !key.watched) {
    watched_.push_back(stripe);
    ++users_;
  }
  if (!ceded && key.watched) {
    watched_.erase(std::find(watched_.begin(), watched_.end(), stripe));
    drop(1);
  }
  key.watched = ceded;
  if (!ceded) key.attendant = nullptr;
  // A running thread may have taken the word since then. If it is refused, it cedes the stripe after this.
  if (!free) return;
  const bool gaveUp = key.enrolled;
  // mutant: process-waits-in-vain
  withdraw(stripe);
  dropKept(stripe);
  // The process may have had the next turn, and does not use it.
  if (gaveUp && file_) page_.wakeNext(key.byte);
}

void ProcessFile::withdraw(std::uint32_t stripe) {
  Key& key = keyAt(stripe);
  if (!key.enrolled.exchange(false) || !file_) return;
  static_cast<void>(refresh());
  page_.withdraw(key.byte);
}

void ProcessFile::dropKept(std::uint32_t waitsFor) {
  if (kept_.empty()) return;
  std::erase_if(kept_, [&](const Kept& kept) {
    if (kept.waitsFor != waitsFor) return false;
    const Key& key = keyAt(kept.stripe);
    if (file_ && !(key.enrolled && key.byte == kept.byte)) page_.withdraw(kept.byte);
    if (file_ && key.holders == 0) page_.wakeNext(kept.byte);
    return true;
  });
}

std::shared_ptr<Table> ProcessFile::table() {
  const Lock lock(mutex_);
  return table_.lock();
}

void ProcessFile::ceded(std::uint32_t stripe, const Participant* blocked) {
  const std::shared_ptr<Table> table = this->table();
  if (blocked && table && table->awaited(stripe).blocked == blocked) {
    const Lock lock(mutex_);
    Key& key = keyAt(stripe);
    if (key.watched && !key.attendant) key.attendant = blocked;
    // It looks before it sleeps.
    if (key.attendant == blocked) return;
  }
  // mutant: process-cedes-unseen
  look(stripe, nullptr);
}

bool ProcessFile::isRefused(std::uint32_t stripe, const Table::Awaited& first) {
  Key& key = keyAt(stripe);
  if (refresh()) return false;
  const ProcessPage::Wait wait{first.shared, toElapsed(first.since), first.threadId};
  key.waitsSince = wait.since;
  key.enrolled = true;
  page_.enrol(key.byte, wait);
  for (const Kept& kept : kept_) {
    if (kept.waitsFor == stripe) static_cast<void>(page_.keepTurn(kept.byte, wait));
  }
  if (page_.goesBefore(key.byte, wait.shared, wait.since) != kNoSlot) return true;
  return key.holders == 0 && file_->lockedElsewhere(key.byte, 1, wait.shared);
}

void ProcessFile::look(std::uint32_t stripe, const Participant* ended) {
  if (!keyAt(stripe).watched) return;
  const std::shared_ptr<Table> table = this->table();
  if (!table) return;
  const Table::Awaited awaited = table->awaited(stripe);
  if (awaited.any) {
    const Lock lock(mutex_);
    Key& key = keyAt(stripe);
    if (!key.watched) return;
    if (key.attendant == ended) key.attendant = nullptr;
    if (isRefused(stripe, awaited)) {
      if (key.attendant) return;
      // Passes on that the key is to be watched (keeps L3).
      // mutant: process-passes-no-watch-on
      if (awaited.blocked) return awaited.blocked->parker().unpark();
      if (watch()) return;
    }
  }
  STRIPELOCK_SEAM("process: before it reopens");
  // mutant: process-reopens-never
  table->reopen(stripe);
}

bool ProcessFile::sleep(std::uint32_t stripe, Participant& blocked, Deadline deadline, Nanoseconds& poll) {
  if (!keyAt(stripe).watched) return false;
  const std::shared_ptr<Table> table = this->table();
  const Table::Awaited awaited = table ? table->awaited(stripe) : Table::Awaited{};
  Lock lock(mutex_);
  Key& key = keyAt(stripe);
  if (!key.watched || (key.attendant && key.attendant != &blocked)) return false;
  if (awaited.blocked != &blocked) {
    const bool attends = key.attendant == &blocked;
    lock.unlock();
    if (attends) look(stripe, &blocked);
    return false;
  }
  key.attendant = &blocked;
  // Before it looks, so that it misses no ring after that.
  static_cast<void>(refresh());
  const std::uint32_t heard = bell_.listen();
  if (!isRefused(stripe, awaited)) {
    lock.unlock();
    STRIPELOCK_SEAM("process: before it reopens");
    table->reopen(stripe);
    return true;
  }
  poll = std::clamp(2 * poll, kFirstPoll, kNear);
  const Nanoseconds most = std::min(patience(stripe, poll), deadline.point() - now());
  if (most <= 0 || !blocked.parker().useAlarm(bell_)) return true;
  // mutant: process-listens-late
  bell_.sleep(lock, heard, most);
  blocked.parker().dropAlarm();
  return true;
}

bool ProcessFile::watch() {
  if (isRunning_) {
    if (sleepsOn_) sleepsOn_->ring();
    return true;
  }
  auto self = std::make_unique<std::shared_ptr<ProcessFile>>(shared_from_this());
  isRunning_ = startThread(runWatch, self.get());
  if (!isRunning_) return false;
  static_cast<void>(self.release());
  ++users_;
  return true;
}

Nanoseconds ProcessFile::patience(std::uint32_t stripe, Nanoseconds poll) {
  const Key& key = keyAt(stripe);
  // Before the turns end that it keeps.
  if (std::any_of(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.waitsFor == stripe; }))
    return std::min(poll, kTurnFor / 2);
  // Where nobody rings, to look is no remedy for a wake that was lost, but the only way.
  if (!bell_.isReachable() || !page_.isEnrolled(key.byte)) return poll;
  const ProcessPage::Turn turn = page_.next(key.byte);
  return seamSlice(turn.slot != kNoSlot && turn.since < key.waitsSince ? kFar : kNear);
}

void ProcessFile::runWatch(void* given) {
  const std::unique_ptr<std::shared_ptr<ProcessFile>> owned(
      static_cast<std::shared_ptr<ProcessFile>*>(given));
  ProcessFile& file = **owned;
  Nanoseconds poll = kFirstPoll;
  Lock lock(file.mutex_);
  for (;;) {
    static_cast<void>(file.refresh());
    const std::uint32_t heard = file.bell_.listen();
    const std::vector<std::uint32_t> stripes = file.watched_;
    lock.unlock();
    for (const std::uint32_t stripe : stripes) file.look(stripe, nullptr);
    lock.lock();
    Nanoseconds sleep = seamSlice(kFar);
    bool isNeeded = false;
    for (const std::uint32_t stripe : file.watched_) {
      if (file.keyAt(stripe).attendant) continue;
      isNeeded = true;
      sleep = std::min(sleep, file.patience(stripe, poll));
    }
    if (isNeeded) {
      if (sleep > kNear) file.sleepsOn_ = &file.bell_;
      file.bell_.sleep(lock, heard, sleep);
      file.sleepsOn_ = nullptr;
      poll = std::min(2 * poll, kNear);
      continue;
    }
    file.sleepsOn_ = &file.work_;
    const std::uint32_t asked = file.work_.listen();
    file.work_.sleep(lock, asked, kIdle);
    file.sleepsOn_ = nullptr;
    poll = kFirstPoll;
    // Decided under the mutex: a thread that asks for it later starts another one.
    // mutant: process-stops-watching
    if (file.work_.listen() != asked) continue;
    file.isRunning_ = false;
    file.drop(1);
    return;
  }
}

// ── for people ──

std::vector<ProcessFile::Seen> ProcessFile::inspect(FileError& error) {
  std::vector<Seen> seen;
  const std::shared_ptr<Table> table = this->table();
  std::vector<StripeInfo> own;
  if (table) own = stripelock::inspect(*table);
  const Lock lock(mutex_);
  if (!file_) return seen;
  const double wall = static_cast<double>(wallClock()) / 1e6;
  for (const StripeInfo& info : own) {
    const Key& key = keyAt(info.stripe);
    const std::uint64_t byte = page_.byteOf(info.key);
    const auto add = [&](bool shared, bool waits, std::int32_t threadId, double since) {
      seen.push_back({{byte, shared, waits, processId(), threadId, since, info.key, std::string()}, true});
    };
    // A grant that its thread has not taken is a wait.
    const bool entered = key.holders > 0;
    for (const std::int32_t threadId : info.holders)
      add(countsHolds(info.word), !entered, threadId, entered ? key.since : wall);
    for (const StripeInfo::Waiting& waits : info.waiters)
      add(isCounted(waits.mode), true, waits.threadId, wall - waits.milliseconds);
  }
  if ((error = verify(0))) return seen;
  for (ProcessPage::Seen& other : page_.inspect()) {
    const auto known =
        std::find_if(seen.begin(), seen.end(), [&](const Seen& one) { return one.byte == other.byte; });
    if (other.key.empty() && known != seen.end()) other.key = known->key;
    seen.push_back({std::move(other), false});
  }
  return seen;
}

std::uint64_t ProcessFile::byteOf(std::string_view key) {
  const Lock lock(mutex_);
  return page_.byteOf(key);
}

}  // namespace stripelock
