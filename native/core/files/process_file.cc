#include "core/files/process_file.h"

#include <algorithm>
#include <utility>

#include "core/base/hash.h"
#include "core/base/platform.h"
#include "core/table/inspect.h"
#include "core/table/participant.h"
#include "core/table/table.h"

namespace stripelock {

namespace {

// The longest times between two polls of a watched key. A poll notices that the key's holder was killed. The process
// that has waited longest polls every kNear. The other processes poll every kFar, in case that process is stopped. A
// blocked thread also checks its key after each slice (SyncWait), so a hundred blocked threads use a quarter of a
// processor.
constexpr Nanoseconds kNear = 10 * kMillisecond;
constexpr Nanoseconds kFar = 250 * kMillisecond;
// If no other process can wake this one, it first polls after this time. Each pause is twice as long as the last, up to
// kNear.
constexpr Nanoseconds kFirstPoll = kMillisecond;
// The file's thread ends after it has been idle for this long.
constexpr Nanoseconds kIdle = 200 * kMillisecond;
// The time for which a check of the file's length stays valid. An acquisition that has locked a byte always checks
// again.
constexpr Nanoseconds kFresh = kMillisecond;
// The least time between two checks of the paths of all files. Such a check also claims a free slot if the process has
// none.
constexpr Nanoseconds kLookAtPaths = 100 * kMillisecond;
// Converts a time of now() to elapsed(), the clock that processes share. A wait that began before the machine was
// suspended may seem shorter.
Nanoseconds toElapsed(Nanoseconds time) { return time == 0 ? elapsed() : elapsed() - (now() - time); }

// The open files of this process. Never destroyed: threads may outlast the process's exit handlers.
struct OpenFiles {
  // Locked before all other mutexes, while a file is opened. Opening may take seconds, so threads that use open files
  // do not lock this mutex.
  Mutex opening;
  std::vector<std::weak_ptr<ProcessFile>> files;

  static OpenFiles& instance() {
    static auto* const files = new OpenFiles;
    return *files;
  }
};

// Locks one byte through two descriptors of the file, to find out whether the system and the file system support such
// locks.
bool excludes(LockFile& file, const std::string& path, FileAccess access, FileError& error) {
  const std::unique_ptr<LockFile> other = LockFile::open(path, access, error);
  if (!other) return false;
  if (!(other->identity() == file.identity())) {
    error = {FileFault::kReplaced, 0};
    return false;
  }
  const std::uint64_t byte = kProbeBytes + randomSeed() % kProbes;
  int number = 0;
  // If the first lock is refused, another process tests the same byte now, so locks work. If both descriptors get the
  // lock, locks do not work.
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

ProcessFile::ProcessFile() : shared_(kTokenBytes + byteLengthFor(kMostKeys)), keys_(kMostKeys) {}

std::shared_ptr<ProcessFile> ProcessFile::find(const LockFile::Identity& identity, const std::string& path,
                                               FileError& error) {
  std::vector<std::weak_ptr<ProcessFile>>& files = OpenFiles::instance().files;
  std::erase_if(files, [](const std::weak_ptr<ProcessFile>& file) { return file.expired(); });
  for (const std::weak_ptr<ProcessFile>& each : files) {
    std::shared_ptr<ProcessFile> file = each.lock();
    if (!file) continue;
    const Lock using_(file->mutex_);
    if (!file->file_ || !(file->file_->identity() == identity)) continue;
    // The path is another name of the file, but the parts beside it are missing or different.
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
                                               const FileShape& shape, FileAccess access, FileError& error) {
  OpenFiles& open = OpenFiles::instance();
  const Lock opening(open.opening);
  std::unique_ptr<LockFile> opened = LockFile::open(path, access, error);
  if (!opened) return nullptr;
  // Closing the second descriptor releases no lock, because locks belong to the open file description.
  if (std::shared_ptr<ProcessFile> known = find(opened->identity(), path, error)) {
    error = known->page_.header().refusal(shape);
    if (!error) return known;
    known->close();
    return nullptr;
  }
  if (error || !excludes(*opened, path, access, error)) return nullptr;
  std::shared_ptr<ProcessFile> file = findClosed(path, shape.limit);
  if (!file) {
    file = std::make_shared<ProcessFile>();
    open.files.push_back(file);
  }
  return file->start(std::move(opened), path, title, shape, error) ? file : nullptr;
}

// Only a file with the same limit can be reused, because the table in its memory keeps the limit.
std::shared_ptr<ProcessFile> ProcessFile::findClosed(const std::string& path, std::uint32_t limit) {
  for (const std::weak_ptr<ProcessFile>& each : OpenFiles::instance().files) {
    if (std::shared_ptr<ProcessFile> file = each.lock()) {
      const Lock using_(file->mutex_);
      if (!file->file_ && file->path_ == path && file->limit_ == limit) return file;
    }
  }
  return nullptr;
}

bool ProcessFile::start(std::unique_ptr<LockFile> file, const std::string& path, const std::string& title,
                        const FileShape& shape, FileError& error) {
  const Lock lock(mutex_);
  file_ = std::move(file);
  page_ = ProcessPage();
  kept_.clear();
  users_ = 1;
  cuts_ = 0;
  lookedAt_ = 0;
  openAgain(path);
  if (!page_.open(*file_, path, title, shape, error)) {
    drop(1);
    return false;
  }
  limit_ = page_.header().limit();
  wakeWord_.use(page_.wakeWord());
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
  wakeWord_.use(nullptr);
  file_.reset();
}

void ProcessFile::attach(std::weak_ptr<Table> table) {
  const Lock lock(mutex_);
  table_ = std::move(table);
}

FileError ProcessFile::refresh() {
  const Nanoseconds time = elapsed();
  return time - checkedAt_ < kFresh ? checked_ : checked(file_->keepWhole(), time);
}

FileError ProcessFile::verify(std::uint64_t byte) {
  const Nanoseconds time = elapsed();
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
      // Until now threads slept on the word of this process. After the wake they sleep on the slot's word.
      wakeWord_.wake();
      wakeWord_.use(page_.wakeWord());
    }
  }
  checked_ = replaced_ ? FileError{FileFault::kReplaced, 0} : found;
  return checked_;
}

// ── bytes ──

bool ProcessFile::areFree(const Key& key, std::uint32_t count) {
  // Starts with the highest permit, because permits are taken from the lowest one up.
  for (std::uint32_t permit = limit_; count > 0 && permit-- > 0;) {
    if (key.permits[permit]) continue;
    if (!file_->lockedElsewhere(page_.header().permitOf(key.byte, permit))) --count;
  }
  return count == 0;
}

LockFile::Answer ProcessFile::lockPermit(Key& key, std::uint32_t& permit, int& number) {
  static_cast<void>(refresh());
  for (int pass = 0; pass < 2; ++pass) {
    // A record without a holder reports a death, so recorded permits come first: the next holder of the key must see
    // that death.
    // mutant: process-passes-dead-permits
    const bool isRecorded = pass == 0;
    for (permit = 0; permit < limit_; ++permit) {
      if (key.permits[permit]) continue;
      const std::uint64_t byte = page_.header().permitOf(key.byte, permit);
      if (page_.isAbandoned(byte) != isRecorded) continue;
      const LockFile::Answer answer = file_->lock(byte, false, number);
      if (answer != LockFile::Answer::kRefused) return answer;
    }
  }
  return LockFile::Answer::kRefused;
}

int ProcessFile::comesFirst(const Key& key, const Ask& ask) const {
  if (!page_.mayBeAwaited(key.byte)) return kNoSlot;
  return page_.goesBefore(key.byte, isShared(ask.mode), toElapsed(ask.since));
}

Gate::Entry::How ProcessFile::lock(Key& key, const Ask& ask, std::uint32_t& permit, FileError& error) {
  const bool shared = isShared(ask.mode);
  if (replaced_) {
    error = {FileFault::kReplaced, 0};
    return Entry::How::kFailed;
  }
  // A short lock could make an attempt of the process with the turn fail. So a process that gave the turn first checks
  // whether the turn has ended. This only saves time: the check after the lock decides. With permits, there may be
  // enough for both.
  // mutant: process-locks-before-it-looks
  if (key.gaveTurn && !hasPermits(limit_)) {
    // Like the check after the lock, this one checks the file before it reads the page. A check that another step made
    // up to kFresh ago is not enough: the file may have been truncated since then.
    // mutant: process-reads-unchecked
    error = verify(key.byte);
    if (error.fault != FileFault::kNone) return Entry::How::kFailed;
    // mutant: process-waits-for-an-old-turn
    key.gaveTurn = comesFirst(key, ask) != kNoSlot;
    if (key.gaveTurn) return Entry::How::kRefused;
  }
  STRIPELOCK_SEAM("process: before it locks");
  int number = 0;
  const LockFile::Answer answer =
      hasPermits(limit_) ? lockPermit(key, permit, number) : file_->lock(key.byte, shared, number);
  if (answer == LockFile::Answer::kRefused) return Entry::How::kRefused;
  if (answer == LockFile::Answer::kFailed) {
    error = {FileFault::kLock, number};
    return Entry::How::kFailed;
  }
  const std::uint64_t byte = page_.header().permitOf(key.byte, permit);
  // This check follows the lock, so that the file was at its path when the byte was locked. It precedes the first
  // access to the page.
  error = verify(byte);
  // mutant: process-looks-before-it-locks
  if (error.fault != FileFault::kNone) {
    file_->unlock(byte);
    return Entry::How::kFailed;
  }
  key.permits[permit] = true;
  // mutant: process-looks-only-before-it-locks
  int before = comesFirst(key, ask);
  // This process may go first if enough permits are free for all processes with a turn.
  // mutant: process-keeps-all-permits
  if (before != kNoSlot && hasPermits(limit_) && areFree(key, page_.countKept(key.byte))) before = kNoSlot;
  if (before != kNoSlot) {
    key.permits[permit] = false;
    // This short lock may just have made an attempt of that process fail, so that process is woken. If others were
    // woken too, processes behind it could wake each other in a loop.
    file_->unlock(byte);
    // mutant: process-wakes-those-behind
    static_cast<void>(page_.wakeWaiter(before, key.byte));
    return Entry::How::kRefused;
  }
  key.shared = shared;
  return Entry::How::kEntered;
}

Gate::Entry::How ProcessFile::take(std::uint32_t stripe, const Ask& ask, Entry& entry) {
  Key& key = keys_[stripe];
  // Preserves L1.
  // mutant: L1-locks-the-first-only
  if (key.permits.count() < permitsFor(key.holders + 1)) {
    std::uint32_t permit = 0;
    const Entry::How locked = lock(key, ask, permit, entry.error);
    if (locked != Entry::How::kEntered) return locked;
    const double since = static_cast<double>(checkedAt_ + toWall_) / 1e6;
    if (key.holders == 0) key.since = since;
    if (page_.hold(page_.header().permitOf(key.byte, permit), key.shared,
                   {ask.threadId, since, ask.table.keys()->keyOf(stripe)}, key.place))
      entry.abandoned = true;
  } else {
    if (const FileError error = refresh()) {
      entry.error = error;
      return Entry::How::kFailed;
    }
    // New readers must not join while a writer of another process has waited longer.
    // mutant: process-joins-past-writers
    if (page_.goesBefore(key.byte, true, toElapsed(ask.since)) != kNoSlot) return Entry::How::kRefused;
    if (page_.isAbandoned(key.byte)) entry.abandoned = true;
  }
  ++key.holders;
  ++users_;
  return Entry::How::kEntered;
}

Gate::Entry ProcessFile::enter(const Ask& ask) {
  const Lock lock(mutex_);
  Entry entry;
  if (!file_) return {.how = Entry::How::kFailed, .error = {FileFault::kReplaced, 0}};
  order_.clear();
  for (std::uint32_t i = 0; i < ask.count; ++i) {
    Key& key = keys_[ask.stripes[i]];
    if (key.holders == 0) key.byte = page_.header().byteOf(ask.table.keys()->keyOf(ask.stripes[i]));
    order_.emplace_back(key.byte, i);
  }
  // Linux keeps a list of the locks of a file, ordered by byte, and searches the list from the lowest byte up. So the
  // highest byte is locked first and unlocked last.
  if (ask.count > 1) std::sort(order_.rbegin(), order_.rend());
  std::size_t taken = 0;
  while (taken < order_.size() && entry.how == Entry::How::kEntered) {
    entry.how = take(ask.stripes[order_[taken].second], ask, entry);
    if (entry.how == Entry::How::kEntered) ++taken;
  }
  if (entry.how == Entry::How::kEntered) {
    lastToken_ = page_.issueToken(order_, lastToken_, checkedAt_);
    for (const auto& [byte, index] : order_) {
      const std::uint32_t stripe = ask.stripes[index];
      const Key& key = keys_[stripe];
      static_cast<Token*>(shared())[stripe].store(lastToken_, std::memory_order_relaxed);
      page_.takeTurn(byte);
      dropKept(stripe);
      // mutant: process-keeps-the-old-wait
      if (key.enrolled) page_.servedWaiter(byte, toElapsed(ask.since));
      if (!key.watched) withdraw(stripe);
      // Preserves L5.
      // mutant: L5-wakes-no-next
      if (hasPermits(limit_) && page_.mayBeAwaited(byte) && areFree(key, 1)) page_.wakeNext(byte);
    }
    return entry;
  }
  entry.refused = order_[taken].second;
  const std::uint32_t refused = ask.stripes[entry.refused];
  if (entry.how == Entry::How::kRefused && ask.waits && !ask.blocks && !watch()) {
    entry.how = Entry::How::kFailed;
    entry.error = {FileFault::kLock, 0};
  }
  // mutant: process-keeps-no-turns
  const bool waits = entry.how == Entry::How::kRefused && ask.waits;
  dropKept(refused);
  const ProcessPage::Wait wait{isShared(ask.mode), toElapsed(ask.since), ask.threadId};
  while (taken > 0) {
    const auto& [byte, index] = order_[--taken];
    if (giveBack(ask.stripes[index], 1, entry.abandoned, waits ? &wait : nullptr) && waits)
      kept_.push_back({ask.stripes[index], byte, refused});
  }
  entry.abandoned = false;
  return entry;
}

bool ProcessFile::giveBack(std::uint32_t stripe, std::uint32_t count, bool died,
                           const ProcessPage::Wait* waits) {
  Key& key = keys_[stripe];
  key.holders -= count;
  users_ -= count;
  // Preserves L1.
  // mutant: process-forgets-shared-early
  if (key.permits.count() <= permitsFor(key.holders)) return false;
  static_cast<void>(refresh());
  bool isKept = false;
  std::uint32_t permit = limit_;
  do {
    if (!key.permits[--permit]) continue;
    key.permits[permit] = false;
    isKept = unlock(key, permit, died, waits);
  } while (key.permits.count() > permitsFor(key.holders));
  return isKept;
}

bool ProcessFile::unlock(Key& key, std::uint32_t permit, bool died, const ProcessPage::Wait* waits) {
  const std::uint64_t byte = page_.header().permitOf(key.byte, permit);
  // The record of a death that was not reported to a caller stays for the next acquisition (preserves G1).
  // mutant: process-hides-the-dead
  if (key.shared || !died) page_.leave(byte, hasPermits(limit_) ? page_.placeOf(byte) : key.place);
  key.gaveTurn = !waits && page_.mayBeAwaited(key.byte) && page_.giveTurn(key.byte, elapsed());
  const bool isKept = waits ? page_.keepTurn(key.byte, *waits) : key.gaveTurn;
  file_->unlock(byte);
  if (!waits || !isKept) page_.wakeNext(key.byte);
  return isKept;
}

bool ProcessFile::leave(std::uint32_t stripe, std::uint32_t count, bool died, bool awaited) {
  const Lock lock(mutex_);
  bool cedes = giveBack(stripe, count, died);
  // Waiters of this process that have ceded the key may get the permit, but no process wakes them. So the caller cedes
  // the stripe, and the watcher of those waiters checks the key.
  // mutant: process-keeps-own-from-permits
  cedes = cedes || (hasPermits(limit_) && keys_[stripe].watched);
  // mutant: process-wakes-own-in-vain
  cedes = cedes && awaited;
  drop(0);
  return cedes;
}

// ── waiting ──

void ProcessFile::settled(std::uint32_t stripe, std::uint32_t word, bool called, bool ceded,
                          const Waiter* first) {
  Key& key = keys_[stripe];
  if (!ceded && !key.watched && !key.enrolled) return;
  const Lock lock(mutex_);
  // A key that was not watched needs no wake here, because ceded() follows.
  const bool isNew = ceded && key.watched && first != key.first;
  if (ceded && !key.watched) {
    watched_.push_back(stripe);
    ++users_;
  }
  if (!ceded && key.watched) {
    watched_.erase(std::find(watched_.begin(), watched_.end(), stripe));
    drop(1);
  }
  key.watched = ceded;
  key.first = first;
  // mutant: E5-keeps-the-watcher
  key.attendant = first && !first->async ? first->owner : nullptr;
  // mutant: E5-wakes-no-watcher
  if (isNew) wakeWatcher(key);
  // Preserves L4. A running thread may have the word and be about to enter. If the gate refuses that thread, the thread
  // cedes the stripe next.
  const bool isEntering = !isFree(word) && !(countsHolds(word) && holderOf(word) == key.holders);
  // mutant: L4-keeps-an-old-wait
  if (called || (word & kQueued) != 0 || isEntering) return;
  const bool gaveUp = key.enrolled;
  // mutant: process-waits-in-vain
  withdraw(stripe);
  dropKept(stripe);
  // This process may have had a turn, which the next process gets now.
  if (gaveUp && file_) page_.wakeNext(key.byte);
}

void ProcessFile::withdraw(std::uint32_t stripe) {
  Key& key = keys_[stripe];
  if (!key.enrolled || !key.enrolled.exchange(false) || !file_) return;
  static_cast<void>(refresh());
  page_.withdraw(key.byte);
}

void ProcessFile::dropKept(std::uint32_t waitsFor) {
  if (kept_.empty()) return;
  std::erase_if(kept_, [&](const Kept& kept) {
    if (kept.waitsFor != waitsFor) return false;
    const Key& key = keys_[kept.stripe];
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
  {
    const Lock lock(mutex_);
    // The blocked thread is the watcher, and checks the key in sleep().
    if (blocked && keys_[stripe].attendant == blocked) return;
  }
  // mutant: process-cedes-unseen
  if (!look(stripe)) return;
  const Lock lock(mutex_);
  // mutant: process-passes-no-watch-on
  if (keys_[stripe].watched) wakeWatcher(keys_[stripe]);
}

ProcessFile::Obstacle ProcessFile::findObstacle(std::uint32_t stripe, const ProcessPage::Wait& wait) {
  Key& key = keys_[stripe];
  if (refresh()) return Obstacle::kNone;
  key.waitsSince = wait.since;
  key.enrolled = true;
  page_.enrol(key.byte, wait);
  for (const Kept& kept : kept_) {
    if (kept.waitsFor == stripe) static_cast<void>(page_.keepTurn(kept.byte, wait));
  }
  if (hasPermits(limit_))
    return areFree(key, page_.countKept(key.byte) + 1) ? Obstacle::kNone : Obstacle::kHolder;
  if (page_.goesBefore(key.byte, wait.shared, wait.since) != kNoSlot) return Obstacle::kWaiter;
  const bool isHeld = key.holders == 0 && file_->lockedElsewhere(key.byte, 1, wait.shared);
  return isHeld ? Obstacle::kHolder : Obstacle::kNone;
}

bool ProcessFile::look(std::uint32_t stripe) {
  if (!keys_[stripe].watched) return false;
  const std::shared_ptr<Table> table = this->table();
  if (!table) return false;
  const Table::Awaited first = table->awaited(stripe);
  STRIPELOCK_SEAM("process: before it looks");
  if (first.any) {
    const Lock lock(mutex_);
    Key& key = keys_[stripe];
    if (!key.watched) return false;
    // If the system cannot start the file's thread, the stripe is reopened. Then the waiter tries, and its acquisition
    // fails.
    const ProcessPage::Wait wait{first.shared && !hasPermits(limit_), toElapsed(first.since), first.threadId};
    if (findObstacle(stripe, wait) != Obstacle::kNone && (key.attendant || isRunning_ || watch()))
      return true;
  }
  STRIPELOCK_SEAM("process: before it reopens");
  // mutant: process-reopens-never
  table->reopen(stripe);
  return false;
}

bool ProcessFile::sleep(const Ask& ask, std::uint32_t stripe, Participant& blocked, Deadline deadline,
                        Nanoseconds& poll) {
  Key& key = keys_[stripe];
  if (!key.watched) return false;
  Lock lock(mutex_);
  if (key.attendant != &blocked) return false;
  // The number of wakes is read before the check of the key, so that a wake after the check ends the sleep.
  static_cast<void>(refresh());
  const std::uint32_t seen = wakeWord_.wakes();
  const Obstacle obstacle = findObstacle(stripe, {isShared(ask.mode), toElapsed(ask.since), ask.threadId});
  if (obstacle == Obstacle::kNone) {
    lock.unlock();
    STRIPELOCK_SEAM("process: before it reopens");
    ask.table.reopen(stripe);
    return true;
  }
  poll = std::clamp(2 * poll, kFirstPoll, kNear);
  const Nanoseconds most = std::min(patience(stripe, poll), deadline.point() - now());
  if (most <= 0) return true;
  // A process that uses the key continuously releases it again soon. So the thread spins first, because waking a
  // sleeping thread would cost that process more than its acquisition and its release. But if another waiter comes
  // first, the thread sleeps at once, because that waiter may need this processor.
  bool isWoken = false;
  if (obstacle == Obstacle::kHolder) {
    ++users_;
    lock.unlock();
    isWoken = blocked.patience.spin([&] { return wakeWord_.wakes() != seen; }, [] { return true; });
    lock.lock();
    drop(1);
  }
  if (isWoken || !blocked.parker().redirect(wakeWord_)) return true;
  // mutant: process-reads-late
  wakeWord_.sleep(lock, seen, most);
  blocked.parker().endRedirect();
  return true;
}

void ProcessFile::wakeWatcher(const Key& key) {
  if (key.attendant) return key.attendant->parker().unpark();
  looksAgain_ = true;
  static_cast<void>(watch());
}

bool ProcessFile::watch() {
  if (isRunning_) {
    if (sleepsOn_) sleepsOn_->wake();
    return true;
  }
  isRunning_ = startThread([self = shared_from_this()] { self->runWatch(); });
  if (isRunning_) ++users_;
  return isRunning_;
}

Nanoseconds ProcessFile::patience(std::uint32_t stripe, Nanoseconds poll) {
  const Key& key = keys_[stripe];
  // The turns that this process keeps must be renewed before they end.
  if (std::any_of(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.waitsFor == stripe; }))
    return std::min(poll, kTurnFor / 2);
  // If no other process can wake this one, it must poll.
  if (!wakeWord_.isReachable() || !page_.isEnrolled(key.byte)) return poll;
  const ProcessPage::Waiter next = page_.next(key.byte);
  return seamSlice(next.slot != kNoSlot && next.since < key.waitsSince ? kFar : kNear);
}

void ProcessFile::runWatch() {
  Nanoseconds poll = kFirstPoll;
  Lock lock(mutex_);
  for (;;) {
    static_cast<void>(refresh());
    const std::uint32_t seen = wakeWord_.wakes();
    const std::vector<std::uint32_t> stripes = watched_;
    looksAgain_ = false;
    lock.unlock();
    for (const std::uint32_t stripe : stripes) look(stripe);
    lock.lock();
    if (looksAgain_) continue;
    Nanoseconds sleep = seamSlice(kFar);
    bool isNeeded = false;
    for (const std::uint32_t stripe : watched_) {
      if (keys_[stripe].attendant) continue;
      isNeeded = true;
      sleep = std::min(sleep, patience(stripe, poll));
    }
    if (isNeeded) {
      if (sleep > kNear) sleepsOn_ = &wakeWord_;
      STRIPELOCK_SEAM("process: before its thread sleeps");
      wakeWord_.sleep(lock, seen, sleep);
      sleepsOn_ = nullptr;
      poll = std::min(2 * poll, kNear);
      continue;
    }
    sleepsOn_ = &work_;
    const std::uint32_t asked = work_.wakes();
    work_.sleep(lock, asked, kIdle);
    sleepsOn_ = nullptr;
    poll = kFirstPoll;
    // isRunning_ changes under the mutex, so the next call of watch() starts a new thread.
    // mutant: process-stops-watching
    if (work_.wakes() != asked) continue;
    isRunning_ = false;
    drop(1);
    return;
  }
}

// ── inspection ──

std::vector<ProcessPage::Seen> ProcessFile::inspect(FileError& error) {
  using Seen = ProcessPage::Seen;
  std::vector<Seen> seen;
  const std::shared_ptr<Table> table = this->table();
  std::vector<StripeInfo> own;
  if (table) own = stripelock::inspect(*table);
  const Lock lock(mutex_);
  if (!file_) return seen;
  const double wall = static_cast<double>(wallClock()) / 1e6;
  for (StripeInfo& info : own) {
    const Key& key = keys_[info.stripe];
    const std::uint64_t byte = placeOf(page_.header().byteOf(info.key));
    const auto add = [&](bool shared, bool waits, std::int32_t threadId, double since, std::string note) {
      seen.push_back(
          {byte, shared, waits, processId(), threadId, since, info.key, {}, true, std::move(note)});
    };
    // A thread that was granted the word and has not entered counts as a waiter.
    std::uint32_t entered = key.holders;
    for (const std::int32_t threadId : info.holders) {
      const bool holds = entered > 0;
      const auto traced =
          std::find_if(info.traced.begin(), info.traced.end(),
                       [&](const StripeInfo::Traced& one) { return holds && one.threadId == threadId; });
      std::string note;
      if (traced != info.traced.end()) {
        note = std::move(traced->note);
        info.traced.erase(traced);
      }
      add(countsHolds(info.word) && isShared(kCountedMode), !holds, threadId, holds ? key.since : wall,
          std::move(note));
      if (hasPermits(limit_) && holds) --entered;
    }
    for (const StripeInfo::Waiting& waits : info.waiters)
      add(isShared(waits.mode), true, waits.threadId, wall - waits.milliseconds, {});
  }
  if ((error = verify(0))) return seen;
  for (Seen& other : page_.inspect()) {
    other.byte = placeOf(other.byte);
    const auto known =
        std::find_if(seen.begin(), seen.end(), [&](const Seen& one) { return one.byte == other.byte; });
    if (other.key.empty() && known != seen.end()) other.key = known->key;
    seen.push_back(std::move(other));
  }
  return seen;
}

std::vector<ProcessPage::Seen> ProcessFile::holdersElsewhere(std::string_view key) {
  std::vector<ProcessPage::Seen> seen;
  const Lock lock(mutex_);
  if (!file_ || refresh()) return seen;
  const std::uint64_t byte = page_.header().byteOf(key);
  const std::uint32_t permits = hasPermits(limit_) ? limit_ : 1;
  for (std::uint32_t i = 0; i < permits; ++i) page_.addHolders(page_.header().permitOf(byte, i), seen);
  return seen;
}

std::uint64_t ProcessFile::byteOf(std::string_view key) {
  const Lock lock(mutex_);
  return placeOf(page_.header().byteOf(key));
}

}  // namespace stripelock
