#include "core/process_locks.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/async_waits.h"
#include "core/hash.h"
#include "core/participant.h"
#include "core/platform.h"

namespace stripelock {

namespace {

using State = ProcessAcquisition::State;
using Status = ProcessOutcome::Status;

// How long a thread sleeps at most before it tries for a key whose holder may have been killed, if its process has waited
// longest; if not, then it only matters where the one that has is stopped. A hundred processes that wait take so little of
// a processor only with the longer one. A thread that blocks also asks then whether it is being ended.
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

template <typename T>
void erase(std::vector<T*>& from, const T* what) {
  const auto found = std::find(from.begin(), from.end(), what);
  if (found != from.end()) from.erase(found);
}

}  // namespace

// The files of this process, and what guards them. Never destroyed: threads may outlast the process's exit handlers.
class ProcessLocks {
 public:
  static ProcessLocks& instance() {
    static auto* const locks = new ProcessLocks;
    return *locks;
  }

  ProcessFile* open(const std::string& path, const std::string& title, std::uint32_t files, FileError& error);
  void close(ProcessFile& file);

  // To be woken when the mutex is unlocked.
  std::vector<Participant*> wakes;
  Mutex mutex;

 private:
  ProcessFile* find(const LockFile::Identity& identity, const std::string& path, FileError& error);

  // Locked before the other one. Opening a file may take seconds, and ends none of them.
  Mutex opening_;
  std::vector<ProcessFile*> files_;
};

namespace {

// Holds the mutex; afterwards wakes the event loops that were granted something. That includes the calling thread's own: its
// script may be ended before it asks for news.
class Section {
 public:
  Section() : lock(ProcessLocks::instance().mutex) {}
  ~Section() { static_cast<void>(flush(false)); }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  // Sends the wakes. True if there were any: then the mutex was unlocked meanwhile.
  bool flush(bool relock = true) {
    std::vector<Participant*> wakes = std::exchange(ProcessLocks::instance().wakes, {});
    if (wakes.empty()) return false;
    lock.unlock();
    for (Participant* participant : wakes) participant->wakeReady();
    if (relock) lock.lock();
    return true;
  }

  Lock lock;
};

}  // namespace

namespace {

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

// One open file. Its members are called with the mutex locked.
class ProcessFile {
 public:
  ProcessFile(std::unique_ptr<LockFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  bool open(const std::string& title, std::uint32_t files, FileError& error) {
    if (!page_.open(*file_, path_, title, files, error)) return false;
    bell_.hang(page_.bell());
    return true;
  }
  void openAgain(const std::string& path) {
    path_ = path;
    replaced_ = false;
    checkedAt_ = 0;
  }

  // It stays until drop() has been called as many times as its users were counted up.
  ProcessKey& keyFor(const std::string& text);
  void drop(ProcessKey& key);

  // Takes the rest of its keys. False: it must wait for the one that it wants. True: it has all, or has failed.
  bool take(ProcessAcquisition& acquisition);
  // Puts it into the queue of the key that it wants.
  void enqueue(ProcessAcquisition& acquisition);
  // It waits no more.
  void withdraw(ProcessAcquisition& acquisition);
  // Gives back all that it has taken. `died`: it was not released.
  void giveBack(ProcessAcquisition& acquisition, bool died);
  // It waits again, in its old place.
  void putBack(ProcessAcquisition& acquisition);
  // Grants the key to those at the head of its queue, as far as it can be had. Also serves the keys that this moves waiters to,
  // or frees: one after the other, so that a chain of any length needs the stack of one.
  void serve(ProcessKey& key);
  // Takes back what is held for threads that have not looked for a long time. `last`: the one that wants it is about to give
  // up, so any time is long enough.
  void revokeIdle(Nanoseconds time, const ProcessKey* last = nullptr);
  // Says in the page whether this process waits for a key.
  void enrol(const ProcessKey& key);
  // From now on a thread of this file looks after what waits in event loops. False if the system has no room for it.
  bool watch();
  // How long nobody needs to look whether the key can be had.
  Nanoseconds patience(const ProcessKey& key, Nanoseconds poll);
  // Call it before the page is touched. Looks whether the file was cut, unless it did within kFresh.
  FileError refresh();
  // Whether the path leads to the file, in which the process has just locked a byte.
  FileError verify(std::uint64_t byte);
  // Its thread can use no grant now.
  static bool isPaused(const ProcessAcquisition& acquisition);

  LockFile& file() { return *file_; }
  ProcessPage& page() { return page_; }
  Bell& bell() { return bell_; }
  // Before a look, so that no ring after it is missed.
  std::uint32_t listen() {
    static_cast<void>(refresh());
    return bell_.listen();
  }

  std::unordered_map<std::uint64_t, ProcessKey> keys;
  // Granted, and their threads have not looked.
  std::vector<ProcessAcquisition*> grants;
  // Who needs it: threads that have opened it, acquisitions, its own thread.
  std::size_t users = 0;

 private:
  enum class Locked : std::uint8_t { kYes, kNo, kFailed };

  static void runWatch(void* self);
  // Records the result of a look at the file. Every kLookAtPaths it also looks at the paths of all files, and for a slot.
  FileError checked(const FileError& found, Nanoseconds time);
  bool mayEnter(const ProcessKey& key, const ProcessAcquisition& acquisition) const;
  static ProcessAcquisition* first(const ProcessKey& key);
  Locked lock(ProcessKey& key, const ProcessAcquisition& acquisition, FileError& error);
  void unlock(ProcessKey& key);
  void hold(ProcessKey& key, ProcessAcquisition& acquisition);
  void leave(ProcessKey& key, ProcessAcquisition& acquisition, bool died);
  void settle(ProcessAcquisition& acquisition);
  void serveOne(ProcessKey& key);
  bool isWanted(const ProcessAcquisition& granted, const ProcessKey* by);

  std::unique_ptr<LockFile> file_;
  std::string path_;
  ProcessPage page_;
  Bell bell_;
  std::uint64_t lastToken_ = 0;
  // The memory of the last key that nobody uses any more, for the next.
  std::unordered_map<std::uint64_t, ProcessKey>::node_type spareKey_;
  // Of the keys of a grant.
  std::vector<std::uint64_t> bytes_;
  // Those with a queue.
  std::vector<ProcessKey*> waiting_;
  // Keys that serve() has yet to serve. Acquisitions that exist until it returns use them.
  std::vector<ProcessKey*> toServe_;
  bool serving_ = false;
  bool watched_ = false;
  bool replaced_ = false;
  Nanoseconds checkedAt_ = 0;
  FileError checked_;
  // When it looked at the paths of all files, and for a slot.
  Nanoseconds lookedAt_ = 0;
  std::uint32_t cuts_ = 0;
};

// ── files ──

// Another user of it, if it is open.
ProcessFile* ProcessLocks::find(const LockFile::Identity& identity, const std::string& path,
                                FileError& error) {
  const Lock lock(mutex);
  for (ProcessFile* file : files_) {
    if (!(file->file().identity() == identity)) continue;
    // The path is another name of the file, and the files beside it are missing or different.
    if (!file->file().isAt(path)) {
      error = {FileFault::kParts, 0};
      return nullptr;
    }
    file->openAgain(path);
    ++file->users;
    return file;
  }
  return nullptr;
}

ProcessFile* ProcessLocks::open(const std::string& path, const std::string& title, std::uint32_t files,
                                FileError& error) {
  const Lock opening(opening_);
  std::unique_ptr<LockFile> opened = LockFile::open(path, error);
  if (!opened) return nullptr;
  // No lock is lost when the descriptor that was not needed is closed: it is another open file.
  if (ProcessFile* const known = find(opened->identity(), path, error)) {
    if (files == 0 || files == known->page().files()) return known;
    error = {FileFault::kFiles, static_cast<int>(known->page().files())};
    const Lock lock(mutex);
    close(*known);
    return nullptr;
  }
  if (error || !excludes(*opened, path, error)) return nullptr;
  auto made = std::make_unique<ProcessFile>(std::move(opened), path);
  if (!made->open(title, files, error)) return nullptr;
  ++made->users;
  const Lock lock(mutex);
  files_.push_back(made.get());
  return made.release();
}

void ProcessLocks::close(ProcessFile& file) {
  if (--file.users > 0) return;
  erase(files_, &file);
  delete &file;
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
    replaced_ = replaced_ || !file_->isAt(path_);
    page_.restore();
    if (page_.slot() == kNoSlot && page_.claimSlot()) {
      // Threads that sleep on the word of this process look again, and then sleep on the slot's.
      bell_.ring();
      bell_.hang(page_.bell());
      for (const ProcessKey* key : waiting_) enrol(*key);
    }
  }
  checked_ = replaced_ ? FileError{FileFault::kReplaced, 0} : found;
  return checked_;
}

// ── keys ──

ProcessKey& ProcessFile::keyFor(const std::string& text) {
  const std::uint64_t byte = page_.byteOf(text);
  auto found = keys.find(byte);
  if (found == keys.end()) {
    if (spareKey_) {
      spareKey_.key() = byte;
      found = keys.insert(std::move(spareKey_)).position;
    } else {
      found = keys.try_emplace(byte).first;
    }
    found->second.byte = byte;
    found->second.text = text;
  }
  return found->second;
}

void ProcessFile::drop(ProcessKey& key) {
  // Nobody has it or waits for it, so all but its name is as in a new one.
  if (--key.users == 0) spareKey_ = keys.extract(key.byte);
}

bool ProcessFile::isPaused(const ProcessAcquisition& acquisition) {
  return !acquisition.blocks && acquisition.thread->isPaused();
}

ProcessAcquisition* ProcessFile::first(const ProcessKey& key) {
  for (ProcessAcquisition* waits : key.queue) {
    if (!isPaused(*waits)) return waits;
  }
  return nullptr;
}

bool ProcessFile::mayEnter(const ProcessKey& key, const ProcessAcquisition& acquisition) const {
  if (!key.holders.empty()) {
    if (!acquisition.shared || !key.holders.front()->shared) return false;
    // The process has the byte, so no other check stops readers that overlap, and a writer of another process would starve.
    if (page_.goesBefore(key.byte, true, acquisition.since) != kNoSlot) return false;
  }
  for (const ProcessAcquisition* waits : key.queue) {
    if (waits == &acquisition || waits->since > acquisition.since) return true;
    if (isPaused(*waits)) continue;
    // mutant: process-newcomers-always-pass
    if (page_.isDue(key.byte, waits->since, elapsed())) return false;
    return acquisition.state == State::kTaking && key.holders.empty();
  }
  return true;
}

ProcessFile::Locked ProcessFile::lock(ProcessKey& key, const ProcessAcquisition& acquisition,
                                      FileError& error) {
  const bool shared = acquisition.shared;
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
  const int before = page_.goesBefore(key.byte, shared, acquisition.since);
  if (before != kNoSlot) {
    // That process may have been refused just now. No other is woken: processes that must wait for it would wake each other
    // until it comes.
    file_->unlock(key.byte);
    // mutant: process-wakes-those-behind
    page_.wake(before);
    return Locked::kNo;
  }
  page_.takeTurn(key.byte);
  key.locked = true;
  key.lockedShared = shared;
  return Locked::kYes;
}

void ProcessFile::unlock(ProcessKey& key) {
  if (page_.isAwaited(key.byte)) page_.giveTurn(key.byte, elapsed());
  file_->unlock(key.byte);
  key.locked = false;
  page_.wakeNext(key.byte);
}

void ProcessFile::hold(ProcessKey& key, ProcessAcquisition& acquisition) {
  if (key.holders.empty()) {
    const double since = static_cast<double>(wallClock()) / 1e6;
    const bool abandoned =
        page_.hold(key.byte, acquisition.shared,
                   {acquisition.thread->threadId(), since, std::string_view(key.text)}, key.place);
    if (abandoned) acquisition.abandoned = true;
  } else if (page_.isAbandoned(key.byte)) {
    acquisition.abandoned = true;
  }
  key.holders.push_back(&acquisition);
}

bool ProcessFile::take(ProcessAcquisition& acquisition) {
  static_cast<void>(refresh());
  for (; acquisition.taken < acquisition.keys.size(); ++acquisition.taken) {
    ProcessKey& key = acquisition.wanted();
    if (!mayEnter(key, acquisition)) return false;
    if (key.locked && key.lockedShared != acquisition.shared) unlock(key);
    if (!key.locked) {
      const Locked locked = lock(key, acquisition, acquisition.error);
      if (locked == Locked::kNo) return false;
      if (locked == Locked::kFailed) {
        // Out of the queue that it may be in, before what it has goes to others.
        withdraw(acquisition);
        acquisition.state = State::kFailed;
        giveBack(acquisition, false);
        return true;
      }
    }
    hold(key, acquisition);
    // mutant: process-never-waits-anew
    if (acquisition.queuedAt == &key) page_.servedWaiter(key.byte, acquisition.since);
  }
  bytes_.clear();
  for (const ProcessKey* key : acquisition.keys) bytes_.push_back(key->byte);
  acquisition.token = lastToken_ = page_.issueToken(bytes_.data(), bytes_.size(), lastToken_);
  acquisition.grantedAt = elapsed();
  return true;
}

void ProcessFile::leave(ProcessKey& key, ProcessAcquisition& acquisition, bool died) {
  erase(key.holders, &acquisition);
  // Keeps L1.
  // mutant: process-forgets-shared-early
  if (!key.holders.empty()) return;
  const bool usable = !refresh();
  // What an acquisition has learned and nobody was told of is left for the next one (keeps G1).
  // mutant: process-hides-the-dead
  if (acquisition.shared || !died) page_.leave(key.byte, key.place);
  key.place = ProcessPage::kNoPlace;
  const ProcessAcquisition* const next = first(key);
  if (usable && next && next->shared == key.lockedShared) {
    // Within the process the byte stays locked, unless another process has waited longer.
    const ProcessPage::Turn turn = page_.next(key.byte);
    if (turn.slot == kNoSlot || next->since < turn.since || !page_.isDue(key.byte, turn.since, elapsed()))
      serve(key);
  }
  if (!key.holders.empty()) return;
  // mutant: process-keeps-free-byte
  if (key.locked) unlock(key);
  serve(key);
}

void ProcessFile::giveBack(ProcessAcquisition& acquisition, bool died) {
  // Its exclusive keys tell the next holders what it was told, if it ends before it was handed out.
  const bool unheard = acquisition.abandoned && acquisition.state != State::kHeld;
  while (acquisition.taken > 0) leave(*acquisition.keys[--acquisition.taken], acquisition, died || unheard);
  acquisition.abandoned = false;
}

// ── queues ──

void ProcessFile::enqueue(ProcessAcquisition& acquisition) {
  ProcessKey& key = acquisition.wanted();
  acquisition.state = State::kWaiting;
  acquisition.queuedAt = &key;
  if (key.queue.empty()) waiting_.push_back(&key);
  const auto isYounger = [](Nanoseconds since, const ProcessAcquisition* other) {
    return other->since > since;
  };
  key.queue.insert(std::upper_bound(key.queue.begin(), key.queue.end(), acquisition.since, isYounger),
                   &acquisition);
  enrol(key);
}

void ProcessFile::withdraw(ProcessAcquisition& acquisition) {
  if (!acquisition.queuedAt) return;
  ProcessKey& key = *std::exchange(acquisition.queuedAt, nullptr);
  erase(key.queue, &acquisition);
  if (key.queue.empty()) erase(waiting_, &key);
  enrol(key);
}

void ProcessFile::enrol(const ProcessKey& key) {
  static_cast<void>(refresh());
  const ProcessAcquisition* const oldest = first(key);
  if (!oldest) return page_.withdraw(key.byte);
  ProcessPage::Wait wait;
  wait.since = oldest->since;
  wait.shared = oldest->shared;
  wait.threadId = oldest->thread->threadId();
  page_.enrol(key.byte, wait);
}

void ProcessFile::settle(ProcessAcquisition& acquisition) {
  if (acquisition.state != State::kFailed) acquisition.state = State::kGranted;
  if (acquisition.blocks) {
    bell_.ring();
    return;
  }
  ProcessThread& thread = *acquisition.thread;
  if (acquisition.state == State::kGranted) grants.push_back(&acquisition);
  thread.ready_.push_back(&acquisition);
  thread.hasReady_.store(true);
  ProcessLocks::instance().wakes.push_back(&thread.participant_);
}

void ProcessFile::serve(ProcessKey& key) {
  toServe_.push_back(&key);
  // Within a call of itself: the outer one continues with this key.
  // mutant: process-serves-recursively
  if (serving_) return;
  serving_ = true;
  while (!toServe_.empty()) {
    ProcessKey& next = *toServe_.back();
    toServe_.pop_back();
    serveOne(next);
  }
  serving_ = false;
}

void ProcessFile::serveOne(ProcessKey& key) {
  STRIPELOCK_SEAM("process: serves a key");
  if (first(key)) enrol(key);
  for (;;) {
    ProcessAcquisition* const next = first(key);
    if (!next) return;
    const std::size_t before = next->taken;
    const bool settled = take(*next);
    if (next->state == State::kFailed) {
      settle(*next);
      continue;
    }
    if (next->taken == before) return;
    withdraw(*next);
    if (settled) {
      settle(*next);
      continue;
    }
    STRIPELOCK_SEAM("process: before it enqueues");
    enqueue(*next);
    // Once more, as in acquireAsync().
    // mutant: process-looks-once-for-later-keys
    serve(next->wanted());
  }
}

void ProcessFile::putBack(ProcessAcquisition& acquisition) {
  withdraw(acquisition);
  erase(grants, &acquisition);
  acquisition.thread->forgetReady(acquisition);
  acquisition.state = State::kWaiting;
  giveBack(acquisition, false);
  enqueue(acquisition);
}

bool ProcessFile::isWanted(const ProcessAcquisition& granted, const ProcessKey* by) {
  return std::any_of(granted.keys.begin(), granted.keys.end(), [&](const ProcessKey* key) {
    return by ? key == by : first(*key) != nullptr || page_.isAwaited(key->byte);
  });
}

void ProcessFile::revokeIdle(Nanoseconds time, const ProcessKey* last) {
  const std::vector<ProcessAcquisition*> all = grants;
  for (ProcessAcquisition* granted : all) {
    // Serving may have taken it back already.
    if (granted->state != State::kGranted) continue;
    const Nanoseconds patience =
        last && granted->revoked == 0 ? 0 : kRevokeAfter << std::min(granted->revoked, kMostRevoked);
    if (time - granted->grantedAt < patience || !isWanted(*granted, last)) continue;
    ++granted->revoked;
    const bool wasAbsent = std::exchange(granted->thread->absent_, true);
    // mutant: process-keeps-idle-grants
    putBack(*granted);
    // Keeps L3.
    // mutant: process-absent-keeps-first-keys
    if (!wasAbsent) granted->thread->pause();
  }
}

Nanoseconds ProcessFile::patience(const ProcessKey& key, Nanoseconds poll) {
  // If no process can wake this one, polling is the only way to notice a release.
  if (!bell_.isReachable() || !page_.isEnrolled(key.byte)) return poll;
  const ProcessAcquisition* const waits = first(key);
  const ProcessPage::Turn turn = page_.next(key.byte);
  return seamSlice(waits && turn.slot != kNoSlot && turn.since < waits->since ? kFar : kNear);
}

bool ProcessFile::watch() {
  if (watched_) {
    bell_.ring();
    return true;
  }
  watched_ = startThread(runWatch, this);
  if (watched_) ++users;
  return watched_;
}

void ProcessFile::runWatch(void* self) {
  auto& file = *static_cast<ProcessFile*>(self);
  Section section;
  Nanoseconds busy = now();
  Nanoseconds poll = kFirstPoll;
  for (;;) {
    const std::uint32_t heard = file.listen();
    Nanoseconds sleep = seamSlice(kFar);
    // A thread that blocks tries for itself.
    const auto isLookedAfterHere = [](const ProcessKey* key) {
      const ProcessAcquisition* const waits = first(*key);
      return waits && !waits->blocks;
    };
    const std::vector<ProcessKey*> keys = file.waiting_;
    for (ProcessKey* key : keys) {
      if (isLookedAfterHere(key)) file.serve(*key);
    }
    file.revokeIdle(elapsed());
    // Includes the keys to which waiters have just moved. This thread also stays for waiters queued behind a blocked thread,
    // because they may move to another key when that thread leaves the queue.
    const auto isAwaitedByALoop = [](const ProcessKey* key) {
      return std::any_of(key->queue.begin(), key->queue.end(),
                         [](const ProcessAcquisition* waits) { return !waits->blocks && !isPaused(*waits); });
    };
    bool isNeeded = false;
    for (const ProcessKey* key : file.waiting_) {
      // mutant: process-leaves-those-behind-blocked
      isNeeded = isNeeded || isAwaitedByALoop(key);
      if (isLookedAfterHere(key)) sleep = std::min(sleep, file.patience(*key, poll));
    }
    if (!file.grants.empty()) sleep = std::min(sleep, kNear);
    const Nanoseconds time = now();
    if (isNeeded || !file.grants.empty()) {
      busy = time;
    } else if (time - busy >= kIdle) {
      // Decided under the mutex: a thread that enqueues later starts another one.
      file.watched_ = false;
      ProcessLocks::instance().close(file);
      return;
    }
    if (section.flush()) {
      poll = kFirstPoll;
      continue;
    }
    file.bell_.sleep(section.lock, heard, sleep);
    poll = std::min(2 * poll, kNear);
  }
}

// ── threads ──

ProcessThread::~ProcessThread() {
  const Section section;
  // Nothing is granted to it any more.
  absent_ = true;
  for (const auto& acquisition : acquisitions_) {
    if (!acquisition) continue;
    ProcessAcquisition& it = *acquisition;
    const bool held = it.state == State::kHeld;
    erase(ready_, &it);
    erase(it.file->grants, &it);
    it.file->withdraw(it);
    it.file->giveBack(it, held);
    for (ProcessKey* key : it.keys) it.file->drop(*key);
    ProcessLocks::instance().close(*it.file);
  }
  for (const OpenFile& open : files_) {
    if (open.file) ProcessLocks::instance().close(*open.file);
  }
}

int ProcessThread::open(const std::string& path, const std::string& title, std::uint32_t files,
                        FileError& error) {
  ProcessFile* const file = ProcessLocks::instance().open(path, title, files, error);
  if (!file) return -1;
  std::size_t number = 0;
  while (number < files_.size() && files_[number].file != file) ++number;
  if (number < files_.size()) {
    ++files_[number].times;
    const Section section;
    ProcessLocks::instance().close(*file);
    return static_cast<int>(number);
  }
  number = 0;
  while (number < files_.size() && files_[number].file) ++number;
  if (number == files_.size()) files_.emplace_back();
  files_[number] = {file, 1};
  return static_cast<int>(number);
}

void ProcessThread::close(int number) {
  OpenFile& open = files_[number];
  if (--open.times > 0) return;
  const Section section;
  ProcessLocks::instance().close(*std::exchange(open.file, nullptr));
}

ProcessAcquisition& ProcessThread::make(int number, const ProcessRequest& request) {
  if (freeIds_.empty()) {
    freeIds_.push_back(static_cast<std::uint32_t>(acquisitions_.size()));
    acquisitions_.emplace_back();
  }
  const std::uint32_t id = freeIds_.back();
  freeIds_.pop_back();
  acquisitions_[id] = spare_ ? std::move(spare_) : std::make_unique<ProcessAcquisition>();
  ProcessAcquisition& made = *acquisitions_[id];
  ProcessFile& file = *files_[number].file;
  made.thread = this;
  made.file = &file;
  made.shared = request.shared;
  made.mayGiveUp = request.mayGiveUp;
  made.id = id;
  made.since = elapsed();
  for (const std::string& text : request.keys) made.keys.push_back(&file.keyFor(text));
  // Each key once, in one order for all. Linux keeps a list of the locks of a file, by byte, and searches it from the lowest one:
  // so the highest is locked first and unlocked last.
  std::sort(made.keys.begin(), made.keys.end(),
            [](const ProcessKey* a, const ProcessKey* b) { return a->byte > b->byte; });
  made.keys.erase(std::unique(made.keys.begin(), made.keys.end()), made.keys.end());
  for (ProcessKey* key : made.keys) ++key->users;
  ++file.users;
  return made;
}

void ProcessThread::destroy(ProcessAcquisition& acquisition) {
  ProcessFile& file = *acquisition.file;
  for (ProcessKey* key : acquisition.keys) file.drop(*key);
  const std::uint32_t id = acquisition.id;
  std::vector<ProcessKey*> memory = std::move(acquisition.keys);
  memory.clear();
  acquisition = {};
  acquisition.keys = std::move(memory);
  spare_ = std::move(acquisitions_[id]);
  freeIds_.push_back(id);
  ProcessLocks::instance().close(file);
}

// It has its keys, or it failed: then it is destroyed.
ProcessOutcome ProcessThread::outcomeOf(ProcessAcquisition& acquisition) {
  ProcessOutcome outcome;
  outcome.id = acquisition.id;
  if (acquisition.state == State::kFailed) {
    outcome.error = acquisition.error;
    destroy(acquisition);
    return outcome;
  }
  acquisition.state = State::kHeld;
  outcome.status = Status::kGranted;
  outcome.abandoned = acquisition.abandoned;
  outcome.token = acquisition.token;
  return outcome;
}

// It gives up.
ProcessOutcome ProcessThread::end(ProcessAcquisition& acquisition, Status status) {
  acquisition.file->withdraw(acquisition);
  acquisition.state = State::kTaking;
  acquisition.file->giveBack(acquisition, false);
  destroy(acquisition);
  ProcessOutcome outcome;
  outcome.status = status;
  return outcome;
}

ProcessOutcome ProcessThread::attempt(int file, const ProcessRequest& request) {
  const Section section;
  ProcessAcquisition& made = make(file, request);
  return made.file->take(made) ? outcomeOf(made) : end(made, Status::kTimedOut);
}

ProcessOutcome ProcessThread::acquireAsync(int file, const ProcessRequest& request) {
  const Section section;
  ProcessAcquisition& made = make(file, request);
  if (made.file->take(made)) return outcomeOf(made);
  STRIPELOCK_SEAM("process: before it enqueues");
  // Keeps L3: the thread has not returned to its event loop since a grant was taken back.
  // mutant: process-absent-takes-first-keys
  if (isPaused()) made.file->giveBack(made, false);
  made.file->enqueue(made);
  // Once more, now that whoever frees it can see that it is waited for.
  // mutant: process-looks-once
  made.file->serve(made.wanted());
  if (made.state == State::kWaiting && !made.file->watch()) {
    made.file->withdraw(made);
    made.state = State::kFailed;
    made.error = {FileFault::kLock, 0};
    made.file->giveBack(made, false);
  }
  if (made.state == State::kWaiting) {
    ++pending_;
    ProcessOutcome outcome;
    outcome.status = Status::kPending;
    outcome.id = made.id;
    return outcome;
  }
  erase(made.file->grants, &made);
  forgetReady(made);
  return outcomeOf(made);
}

ProcessOutcome ProcessThread::acquireSync(int file, const ProcessRequest& request, Interrupt interrupt) {
  Section section;
  const Deadline deadline = request.timeout > 0 ? Deadline::after(request.timeout) : Deadline::at(0);
  ProcessAcquisition& made = make(file, request);
  if (made.file->take(made)) return outcomeOf(made);
  if (request.timeout <= 0) return end(made, Status::kTimedOut);
  made.blocks = true;
  ProcessAcquisition* const outer = std::exchange(blockedOn_, &made);
  putGrantsBack();
  pause();
  std::vector<ProcessBlocked> cycle;
  Status status = Status::kGranted;
  if (!made.file->take(made)) {
    made.file->enqueue(made);
    status = block(section.lock, made, deadline, interrupt, cycle);
  }
  blockedOn_ = outer;
  ProcessOutcome outcome = status == Status::kGranted ? outcomeOf(made) : end(made, status);
  outcome.cycle = std::move(cycle);
  if (!outer) resume();
  return outcome;
}

Status ProcessThread::block(Lock& lock, ProcessAcquisition& waits, Deadline deadline, Interrupt interrupt,
                            std::vector<ProcessBlocked>& cycle) {
  ProcessFile& file = *waits.file;
  auto& wakes = ProcessLocks::instance().wakes;
  Nanoseconds poll = kFirstPoll;
  // When it asks next whether its thread is being ended, and when it tries next although nobody rang.
  Nanoseconds sliceEnd = now() + seamSlice(kFirstSlice);
  Nanoseconds lookAt = 0;
  std::uint32_t heard = 0;
  bool slept = false;
  if (!(cycle = findCycle(waits)).empty()) return Status::kDeadlock;
  for (;;) {
    Nanoseconds time = now();
    const bool timeIsUp = deadline.passedAt(time);
    const std::uint32_t rung = file.listen();
    if (timeIsUp || time >= std::min(lookAt, sliceEnd) || rung != heard) {
      heard = rung;
      if (waits.state == State::kWaiting) file.serve(waits.wanted());
      if (waits.state == State::kWaiting && timeIsUp) {
        // mutant: process-idle-at-sync-deadline
        file.revokeIdle(elapsed(), &waits.wanted());
        if (waits.state == State::kWaiting) return Status::kTimedOut;
      }
      time = now();
      if (waits.state == State::kWaiting) lookAt = time + file.patience(waits.wanted(), poll);
      poll = std::min(2 * poll, kNear);
    }
    // Others that were granted something: they must not wait until this thread sleeps.
    std::vector<Participant*> woken = std::exchange(wakes, {});
    const bool granted = waits.state != State::kWaiting;
    const bool sliceEnded = time >= sliceEnd;
    if (!woken.empty() || granted || sliceEnded) {
      lock.unlock();
      for (Participant* participant : woken) participant->wakeReady();
      const bool ended = granted && !slept       ? interrupt.checkEnding()
                         : granted || sliceEnded ? interrupt.check()
                                                 : false;
      lock.lock();
      // A thread that runs no more of its JavaScript must not keep a grant, since nobody would release it.
      // mutant: process-ended-keeps-grant
      if (ended) {
        hurryOthers(now());
        return Status::kInterrupted;
      }
      if (granted) return Status::kGranted;
      if (sliceEnded) {
        slept = true;
        sliceEnd = time + seamSlice(hurrying(time) ? kHurriedSlice : kFar);
        if (waits.state == State::kWaiting && !(cycle = findCycle(waits)).empty()) return Status::kDeadlock;
      }
      continue;
    }
    const Nanoseconds most = std::min({sliceEnd, deadline.point(), lookAt}) - time;
    file.bell().sleep(lock, heard, std::max<Nanoseconds>(most, 1));
  }
}

void ProcessThread::forgetReady(const ProcessAcquisition& acquisition) {
  erase(ready_, &acquisition);
  hasReady_.store(!ready_.empty());
}

void ProcessThread::putGrantsBack() {
  const std::vector<ProcessAcquisition*> all = ready_;
  for (ProcessAcquisition* settled : all) {
    if (settled->state == State::kGranted) settled->file->putBack(*settled);
  }
}

void ProcessThread::pause() {
  for (const auto& acquisition : acquisitions_) {
    if (acquisition && isWaitingInLoop(*acquisition) && acquisition->taken > 0)
      acquisition->file->putBack(*acquisition);
  }
  // Those behind its waiters need not wait for them.
  for (const auto& [file, key] : awaitedKeys()) {
    file->enrol(*key);
    file->serve(*key);
  }
}

void ProcessThread::resume() {
  const ProcessFile* watched = nullptr;
  for (const auto& [file, key] : awaitedKeys()) {
    file->enrol(*key);
    file->serve(*key);
    if (std::exchange(watched, file) != file) static_cast<void>(file->watch());
  }
}

std::vector<std::pair<ProcessFile*, ProcessKey*>> ProcessThread::awaitedKeys() const {
  std::vector<std::pair<ProcessFile*, ProcessKey*>> keys;
  for (const auto& acquisition : acquisitions_) {
    if (acquisition && isWaitingInLoop(*acquisition))
      keys.emplace_back(acquisition->file, acquisition->queuedAt);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

bool ProcessThread::cancel(std::uint32_t id, bool last) {
  const Section section;
  ProcessAcquisition* const found = id < acquisitions_.size() ? acquisitions_[id].get() : nullptr;
  if (!found || found->blocks || (found->state != State::kWaiting && found->state != State::kGranted))
    return false;
  // mutant: process-idle-at-async-deadline
  if (last && found->state == State::kWaiting) found->file->revokeIdle(elapsed(), found->queuedAt);
  if (last && found->state != State::kWaiting) return false;
  erase(found->file->grants, found);
  forgetReady(*found);
  --pending_;
  static_cast<void>(end(*found, Status::kTimedOut));
  return true;
}

bool ProcessThread::release(std::uint32_t id) {
  const Section section;
  ProcessAcquisition* const found = id < acquisitions_.size() ? acquisitions_[id].get() : nullptr;
  if (!found || found->state != State::kHeld) return false;
  found->file->giveBack(*found, false);
  destroy(*found);
  return true;
}

std::size_t ProcessThread::take(ProcessOutcome* out, std::size_t room) {
  const Section section;
  // mutant: process-comes-back-in-vain
  if (std::exchange(absent_, false)) resume();
  std::size_t count = 0;
  while (count < room && count < ready_.size()) {
    ProcessAcquisition& settled = *ready_[count];
    erase(settled.file->grants, &settled);
    out[count++] = outcomeOf(settled);
  }
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(count));
  hasReady_.store(!ready_.empty());
  pending_ -= count;
  return count;
}

namespace {

// Looks for a cycle of acquisitions that wait for each other: depth first, through those that must release a key, or leave its
// queue, before another one gets it. Looks at each holder and each waiter of a key at most twice, however many wait behind them.
class CycleSearch {
 public:
  // `blockedOn`: what the thread of a held acquisition is blocked on, or nullptr.
  // `isOwn`: whether an acquisition is held by the thread that asks.
  template <typename BlockedOn, typename IsOwn>
  std::vector<ProcessBlocked> run(const ProcessAcquisition& start, BlockedOn blockedOn, IsOwn isOwn) {
    enter(start);
    while (!path_.empty()) {
      const ProcessAcquisition* const blocker = nextBlocker(path_.back());
      if (!blocker) {
        path_.pop_back();
        continue;
      }
      if (blocker->state == State::kHeld && isOwn(*blocker)) return describe();
      const ProcessAcquisition* const waits = blocker->state == State::kHeld ? blockedOn(*blocker) : blocker;
      if (waits && waits->state == State::kWaiting) enter(*waits);
    }
    return {};
  }

 private:
  // How far the search has looked at a key for acquisitions that want it in one mode.
  struct Progress {
    std::size_t holders = 0;
    std::size_t queue = 0;
  };
  struct Looked {
    // Each waiter's index in the queue.
    std::unordered_map<const ProcessAcquisition*, std::size_t> positions;
    Progress exclusive;
    Progress shared;
  };
  struct Step {
    const ProcessAcquisition* waits;
    Looked* looked;
  };

  void enter(const ProcessAcquisition& waits) {
    if (!entered_.insert(&waits).second) return;
    const ProcessKey& key = waits.wanted();
    const auto [found, isNew] = looked_.try_emplace(&key);
    Looked& looked = found->second;
    if (isNew) {
      for (std::size_t i = 0; i < key.queue.size(); ++i) looked.positions.emplace(key.queue[i], i);
    }
    path_.push_back({&waits, &looked});
  }

  // The next acquisition that this one waits for and that was not looked at in this mode, or nullptr.
  static const ProcessAcquisition* nextBlocker(const Step& step) {
    const ProcessAcquisition& waits = *step.waits;
    const ProcessKey& key = waits.wanted();
    Progress& progress = waits.shared ? step.looked->shared : step.looked->exclusive;
    while (progress.holders < key.holders.size()) {
      STRIPELOCK_SEAM("process: a step of the search");
      const ProcessAcquisition* const holder = key.holders[progress.holders++];
      // mutant: process-graph-readers
      if (waits.shared && holder->shared) continue;
      // One that waits in an event loop, and may give up, ends the cycle when it does.
      const bool givesUp = holder->state == State::kWaiting && !holder->blocks && holder->mayGiveUp;
      // mutant: process-graph-holder-that-gives-up
      if (givesUp) continue;
      return holder;
    }
    const auto position = step.looked->positions.find(&waits);
    const std::size_t end = position == step.looked->positions.end() ? key.queue.size() : position->second;
    while (progress.queue < end) {
      STRIPELOCK_SEAM("process: a step of the search");
      const ProcessAcquisition* const ahead = key.queue[progress.queue++];
      // mutant: process-graph-waiter-that-gives-up
      if (ahead->mayGiveUp) continue;
      // mutant: process-graph-paused
      if (ProcessFile::isPaused(*ahead)) continue;
      return ahead;
    }
    return nullptr;
  }

  std::vector<ProcessBlocked> describe() const {
    std::vector<ProcessBlocked> cycle;
    for (const Step& step : path_)
      cycle.push_back({step.waits->thread->threadId(), step.waits->wanted().text});
    return cycle;
  }

  std::vector<Step> path_;
  std::unordered_set<const ProcessAcquisition*> entered_;
  std::unordered_map<const ProcessKey*, Looked> looked_;
};

}  // namespace

std::int32_t ProcessThread::threadId() const { return participant_.threadId(); }

std::vector<ProcessBlocked> ProcessThread::findCycle(const ProcessAcquisition& start) const {
  return CycleSearch().run(
      start, [](const ProcessAcquisition& held) { return held.thread->blockedOn_; },
      [this](const ProcessAcquisition& held) { return held.thread == this; });
}

std::vector<ProcessThread::Seen> ProcessThread::inspect(int number, FileError& error) {
  const Section section;
  ProcessFile& file = *files_[number].file;
  std::vector<Seen> seen;
  const double toWall = static_cast<double>(wallClock() - elapsed());
  const auto add = [&](const ProcessKey& key, const ProcessAcquisition& one, bool waits, Nanoseconds since) {
    seen.push_back({{key.byte, one.shared, waits, processId(), one.thread->threadId(),
                     (static_cast<double>(since) + toWall) / 1e6, key.text, std::string()},
                    true});
  };
  for (const auto& [byte, key] : file.keys) {
    for (const ProcessAcquisition* holder : key.holders) add(key, *holder, false, holder->grantedAt);
    for (const ProcessAcquisition* waits : key.queue) add(key, *waits, true, waits->since);
  }
  if ((error = file.verify(0))) return seen;
  for (ProcessPage::Seen& other : file.page().inspect()) {
    const auto known = file.keys.find(other.byte);
    if (other.key.empty() && known != file.keys.end()) other.key = known->second.text;
    seen.push_back({std::move(other), false});
  }
  return seen;
}

}  // namespace stripelock
