// Locks on keys of a file, between processes, and between the threads of this one.
//
// All threads that open a file share one ProcessFile, with one LockFile: to the kernel they are one holder. So they settle
// here which of them holds a key, and the process has the key's byte as long as any does.
//
// An acquisition takes its keys in descending order of their bytes, and waits in the queue of the first that it cannot have:
//
//   state     is in a queue   holds keys[0 … taken)   who moves it on
//   kTaking   no              yes                     its thread, now
//   kWaiting  yes             yes                     whoever serves that queue
//   kGranted  no              all                     its thread, when it looks; whoever takes the grant back: to kWaiting
//   kHeld     no              all                     its thread, by release()
//   kFailed   no              none                    its thread, when it looks
//
// One mutex guards all of it, for all files of the process: the calls into the kernel that it covers cost more than it does,
// and a search for deadlocks sees every thread. Wakes are collected under it and sent after it is unlocked.
//
//  L1. The process has the byte of a key, in the mode of the holders, as long as any acquisition has taken the key.
//  L2. Only the first in a queue that can use a grant now tries to lock the byte, and newcomers that may pass it.
//  L3. A thread that blocks here, or does not come back to its event loop for what it was granted, keeps nothing for its
//      acquisitions that wait.
//  L4. Somebody tries again at least every kFar for a key that is waited for: the threads that block, or the one thread of the
//      file (watch()) that does so for those that wait in event loops.

#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/mode.h"
#include "core/process_page.h"
#include "core/sync.h"
#include "core/sync_wait.h"

namespace stripelock {

class Participant;
class ProcessFile;
class ProcessThread;
struct ProcessAcquisition;

// A key that somebody in this process has or wants.
struct ProcessKey {
  std::uint64_t byte;
  std::string text;
  // Acquisitions that have it among their keys.
  std::size_t users = 0;
  // The kernel's lock of the byte (L1).
  bool locked = false;
  bool lockedShared = false;
  // Those that have taken it: one, or any number of shared ones.
  std::vector<ProcessAcquisition*> holders;
  // By time of arrival.
  std::vector<ProcessAcquisition*> queue;
  // Of the process's record.
  std::int32_t place = ProcessPage::kNoPlace;
};

struct ProcessAcquisition {
  enum class State : std::uint8_t { kTaking, kWaiting, kGranted, kHeld, kFailed };

  ProcessThread* thread = nullptr;
  ProcessFile* file = nullptr;
  std::vector<ProcessKey*> keys;
  std::size_t taken = 0;
  // The key in whose queue it is.
  ProcessKey* queuedAt = nullptr;
  State state = State::kTaking;
  bool shared = false;
  // Its thread is blocked until it is settled.
  bool blocks = false;
  // It has a deadline or a signal.
  bool mayGiveUp = false;
  // An earlier holder of a key died.
  bool abandoned = false;
  int revoked = 0;
  std::uint32_t id = 0;
  std::uint64_t token = 0;
  // On the clock of elapsed().
  Nanoseconds since = 0;
  Nanoseconds grantedAt = 0;
  FileError error;

  ProcessKey& wanted() const { return *keys[taken]; }
};

// What a thread asks for. Keys as exact_keys.h of native/node encodes them.
struct ProcessRequest {
  std::vector<std::string> keys;
  bool shared = false;
  // Milliseconds; may be infinite. Not for async acquisitions, whose thread cancels them.
  double timeout = 0;
  bool mayGiveUp = false;
};

// A thread, and the key that it waits for.
struct ProcessBlocked {
  std::int32_t threadId;
  // Encoded like the keys of a ProcessRequest.
  std::string key;
};

struct ProcessOutcome {
  enum class Status : std::uint8_t { kGranted, kPending, kTimedOut, kDeadlock, kInterrupted, kFailed };
  Status status = Status::kFailed;
  bool abandoned = false;
  // Unless it failed.
  std::uint32_t id = 0;
  std::uint64_t token = 0;
  FileError error;
  // If refused: each thread waits for the next one, the last for the first.
  std::vector<ProcessBlocked> cycle;
};

// One thread's acquisitions. Only that thread calls its members.
class ProcessThread {
 public:
  explicit ProcessThread(Participant& participant) : participant_(participant) {}
  // The thread ends: what it holds is freed, and the next holders are told.
  ~ProcessThread();
  ProcessThread(const ProcessThread&) = delete;
  ProcessThread& operator=(const ProcessThread&) = delete;

  // The number of an open file, or -1. `title` is what other processes show of this one. `files`: see ProcessPage::open().
  int open(const std::string& path, const std::string& title, std::uint32_t files, FileError& error);
  // As many times as open() returned the number. What is held there stays held.
  void close(int file);
  bool isOpen(int file) const {
    return file >= 0 && static_cast<std::size_t>(file) < files_.size() && files_[file].file;
  }

  ProcessOutcome attempt(int file, const ProcessRequest& request);
  ProcessOutcome acquireSync(int file, const ProcessRequest& request, Interrupt interrupt);
  ProcessOutcome acquireAsync(int file, const ProcessRequest& request);
  // Ends one that waits, or was granted and not taken. False if it is neither. `last`: its time is up, so it takes what is idle,
  // if that is enough for it. Then false, and take() hands it out.
  bool cancel(std::uint32_t id, bool last = false);
  // False if nothing is held under that id.
  bool release(std::uint32_t id);

  // Hands out up to `room` that were granted, or failed.
  std::size_t take(ProcessOutcome* out, std::size_t room);
  // Whether take() has something to hand out.
  bool hasReady() const { return hasReady_.load(); }
  // Acquisitions that wait without blocking.
  std::size_t pending() const { return pending_; }
  // The host's number for the thread.
  std::int32_t threadId() const;

  struct Seen : ProcessPage::Seen {
    // In this process.
    bool here = false;
  };
  std::vector<Seen> inspect(int file, FileError& error);

 private:
  friend class ProcessFile;
  friend class ProcessLocks;

  struct OpenFile {
    ProcessFile* file = nullptr;
    std::size_t times = 0;
  };

  ProcessAcquisition& make(int file, const ProcessRequest& request);
  void destroy(ProcessAcquisition& acquisition);
  ProcessOutcome outcomeOf(ProcessAcquisition& acquisition);
  ProcessOutcome end(ProcessAcquisition& acquisition, ProcessOutcome::Status status);
  bool isPaused() const { return blockedOn_ != nullptr || absent_; }
  // Whether it waits in its thread's event loop.
  static bool isWaitingInLoop(const ProcessAcquisition& acquisition) {
    return !acquisition.blocks && acquisition.state == ProcessAcquisition::State::kWaiting;
  }
  // The keys that the thread's event loop waits for, each once, with their files.
  std::vector<std::pair<ProcessFile*, ProcessKey*>> awaitedKeys() const;
  // The grants that the thread has not taken wait again.
  void putGrantsBack();
  // The thread blocks or is absent from now on. Gives back the keys that the waiters of its event loop have taken (L3), and
  // serves those behind them.
  void pause();
  // The waiters of its event loop can be granted again.
  void resume();
  // Keeps take() from handing it out.
  void forgetReady(const ProcessAcquisition& acquisition);
  std::vector<ProcessBlocked> findCycle(const ProcessAcquisition& waits) const;
  ProcessOutcome::Status block(Lock& lock, ProcessAcquisition& waits, Deadline deadline, Interrupt interrupt,
                               std::vector<ProcessBlocked>& cycle);

  Participant& participant_;
  std::vector<OpenFile> files_;
  // The index is the id. Unused ids are null here and listed in freeIds_.
  std::vector<std::unique_ptr<ProcessAcquisition>> acquisitions_;
  std::vector<std::uint32_t> freeIds_;
  // The memory of the last one that ended, for the next.
  std::unique_ptr<ProcessAcquisition> spare_;
  // Granted or failed, and not handed out.
  std::vector<ProcessAcquisition*> ready_;
  std::atomic<bool> hasReady_{false};
  std::size_t pending_ = 0;
  ProcessAcquisition* blockedOn_ = nullptr;
  // A grant was taken back, and it has not looked since.
  bool absent_ = false;
};

}  // namespace stripelock
