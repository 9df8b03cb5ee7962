// For the locks of open files.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

#include "core/base/hash.h"
#include "core/files/process_file.h"
#include "core/files/process_page.h"
#include "test/support.h"

// A second open file in this process is to the kernel what another process is, so tests need only this one.

namespace stripelock::test {

namespace {

// The request of a thread.
struct ProcessRequest {
  std::vector<std::string> keys;
  bool shared = false;
  double timeout = 0;
  bool mayGiveUp = false;
};
enum class Result : std::uint8_t { kGranted, kPending, kTimedOut, kDeadlock, kInterrupted, kFailed };
struct ProcessOutcome {
  Result status = Result::kFailed;
  bool abandoned = false;
  std::uint32_t id = 0;
  std::uint64_t token = 0;
  FileError error;
  struct Blocked {
    std::int32_t threadId;
    std::string key;
  };
  std::vector<Blocked> cycle;
};

class Folder {
 public:
  explicit Folder(const std::string& parent = "/tmp") : path_(parent + "/stripelock-test-XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { static_cast<void>(std::system(("rm -rf " + path_).c_str())); }
  std::string file(const std::string& name = "lock") const { return path_ + "/" + name; }
  std::string path() const { return path_; }

 private:
  std::string path_;
};

ProcessRequest ask(std::vector<std::string> keys, double timeout = kForever, bool shared = false) {
  return {.keys = std::move(keys), .shared = shared, .timeout = timeout};
}

// A thread of this process with the file open, by the steps of the JavaScript layer.
class Member {
 public:
  explicit Member(const std::string& path, std::uint32_t files = 0, std::uint32_t limit = 1)
      : hasPermits_(hasPermits(limit)) {
    FileError error;
    file_ = ProcessFile::open(path, "member", {files, limit}, FileAccess::kUser, error);
    EXPECT_EQ(error.fault, FileFault::kNone);
    membership_ = Registry::instance().open(environment_.participant(),
                                            static_cast<char*>(file_->shared()) + ProcessFile::kTokenBytes,
                                            ProcessFile::kMostKeys, true, limit, path, file_);
    shares_ = std::make_unique<Word[]>(shareIntsFor(ProcessFile::kMostKeys));
    membership_->openShares(shares_.get());
  }
  ~Member() { end(); }

  void end() {
    if (!membership_) return;
    membership_ = nullptr;
    environment_.end();
    file_->close();
  }
  Environment& environment() { return environment_; }
  std::vector<ProcessPage::Seen> inspect(FileError& error) { return file_->inspect(error); }

  ProcessOutcome attempt(const ProcessRequest& request) { return start(request, 0); }
  ProcessOutcome sync(const ProcessRequest& request, Interrupt interrupt = {}) {
    const Held asked = read(request);
    const SyncOutcome outcome = SyncWait(*membership_, requestOf(asked, request.timeout), interrupt).run();
    switch (outcome.status) {
      case Status::kGranted:
        return granted(asked, outcome.abandoned);
      case Status::kTimedOut:
        return {.status = Result::kTimedOut};
      case Status::kInterrupted:
        return {.status = Result::kInterrupted};
      case Status::kFailed:
        return {.status = Result::kFailed, .error = outcome.error};
      case Status::kDeadlock:
        break;
    }
    ProcessOutcome refused{.status = Result::kDeadlock};
    for (const Blocked& blocked : outcome.cycle) refused.cycle.push_back({blocked.threadId, blocked.key});
    return refused;
  }
  ProcessOutcome async(const ProcessRequest& request) {
    return start(request, request.mayGiveUp ? std::numeric_limits<double>::max() : kForever);
  }
  bool tryEnter(const std::string& key) { return membership_->tryEnter(stripeOf(key)); }
  bool leave(const std::string& key) { return membership_->release(stripeOf(key), Mode::kExclusive); }
  std::uint32_t hold(const std::string& key, bool shared = false) {
    const ProcessOutcome outcome = attempt(ask({key}, 0, shared));
    EXPECT_EQ(outcome.status, Result::kGranted);
    return outcome.id;
  }
  std::uint32_t pend(const ProcessRequest& request) {
    const ProcessOutcome outcome = async(request);
    EXPECT_EQ(outcome.status, Result::kPending);
    return outcome.id;
  }
  bool mayHave(const std::string& key, bool shared = false) {
    const ProcessOutcome outcome = attempt(ask({key}, 0, shared));
    if (outcome.status == Result::kGranted) release(outcome.id);
    return outcome.status == Result::kGranted;
  }
  void release(std::uint32_t id) {
    const auto found = held_.find(id);
    ASSERT_TRUE(found != held_.end());
    const Held held = found->second;
    held_.erase(found);
    for (std::size_t i = held.stripes.size(); i-- > 0;)
      EXPECT_TRUE(membership_->release(held.stripes[i], held.mode));
  }
  bool cancel(std::uint32_t id) {
    for (const auto& [waiter, own] : pending_) {
      if (own != id) continue;
      EXPECT_TRUE(environment_.async().cancel(waiter));
      pending_.erase(waiter);
      held_.erase(id);
      return true;
    }
    return false;
  }
  std::size_t pending() const { return pending_.size(); }
  // The number of acquisitions in the queues of all keys, from all threads of this process.
  std::size_t queued() {
    std::size_t count = 0;
    for (const StripeInfo& info : stripelock::inspect(membership_->table())) count += info.waiters.size();
    return count;
  }
  bool hasReady() { return environment_.async().hasReady(); }
  std::optional<ProcessOutcome> take() {
    AsyncWaits::Granted news{};
    if (environment_.async().take(&news, 1) == 0) return std::nullopt;
    const std::uint32_t id = pending_.at(news.id);
    pending_.erase(news.id);
    const Held asked = held_.at(id);
    if (!news.error) return granted(asked, news.abandoned, id);
    held_.erase(id);
    return ProcessOutcome{.status = Result::kFailed, .id = id, .error = news.error};
  }
  // Waits until the event loop is woken for something.
  std::optional<ProcessOutcome> awaitNews() {
    for (const Nanoseconds end = now() + static_cast<Nanoseconds>(kStuck * 1e6); now() < end;) {
      if (const auto news = take()) return news;
      environment_.awaitWake(kStuck);
    }
    return std::nullopt;
  }
  std::uint32_t stripeOf(const std::string& key) { return membership_->pins()->pin(KeyView(key)).stripe; }

 private:
  struct Held {
    Stripes stripes;
    Mode mode;
  };

  Held read(const ProcessRequest& request) {
    Held asked{{}, sharedIf(request.shared || hasPermits_)};
    for (const std::string& key : request.keys) asked.stripes.push_back(stripeOf(key));
    std::sort(asked.stripes.begin(), asked.stripes.end());
    asked.stripes.erase(std::unique(asked.stripes.begin(), asked.stripes.end()), asked.stripes.end());
    return asked;
  }
  static Request requestOf(const Held& asked, double timeout) {
    return {.stripes = asked.stripes.data(),
            .count = static_cast<std::uint32_t>(asked.stripes.size()),
            .taken = 0,
            .mode = asked.mode,
            .timeout = timeout};
  }
  ProcessOutcome start(const ProcessRequest& request, double timeout) {
    const Held asked = read(request);
    const AsyncWaits::Started started = environment_.async().start(*membership_, requestOf(asked, timeout));
    switch (started.status) {
      case AsyncStart::kGranted:
        return granted(asked, started.abandoned);
      case AsyncStart::kTimedOut:
        return {.status = Result::kTimedOut};
      case AsyncStart::kFailed:
        return {.status = Result::kFailed, .error = started.error};
      case AsyncStart::kPending:
        break;
    }
    const std::uint32_t id = next_++;
    held_.emplace(id, asked);
    pending_.emplace(started.id, id);
    return {.status = Result::kPending, .id = id};
  }
  ProcessOutcome granted(const Held& held, bool abandoned,
                         std::optional<std::uint32_t> known = std::nullopt) {
    const std::uint32_t id = known ? *known : next_++;
    held_.insert_or_assign(id, held);
    return {.status = Result::kGranted,
            .abandoned = abandoned,
            .id = id,
            .token = static_cast<std::atomic<std::uint64_t>*>(file_->shared())[held.stripes.front()]};
  }

  const bool hasPermits_;
  Environment environment_;
  std::shared_ptr<ProcessFile> file_;
  Membership* membership_ = nullptr;
  std::unique_ptr<Word[]> shares_;
  std::uint32_t next_ = 0;
  std::map<std::uint32_t, Held> held_;
  // The ids of this fixture, by the ids of the core.
  std::map<std::uint32_t, std::uint32_t> pending_;
};

// Another process, as the kernel and the page see it.
class Other {
 public:
  explicit Other(const std::string& path) {
    FileError error;
    file_ = LockFile::open(path, FileAccess::kUser, error);
    EXPECT_TRUE(file_ && page_.open(*file_, path, "other", {}, error)) << static_cast<int>(error.fault);
  }

  LockFile& file() { return *file_; }
  ProcessPage& page() { return page_; }
  std::uint64_t byteOf(const std::string& key) const { return page_.header().byteOf(key); }
  std::uint64_t permitOf(const std::string& key, std::uint32_t permit) const {
    return page_.header().permitOf(byteOf(key), permit);
  }
  bool lock(const std::string& key, bool shared = false, std::uint32_t permit = 0) {
    int number = 0;
    return file_->lock(permitOf(key, permit), shared, number) == LockFile::Answer::kTaken;
  }
  // Whether it got the key; `abandoned`: what it was told.
  bool hold(const std::string& key, bool shared = false, bool* abandoned = nullptr,
            std::uint32_t permit = 0) {
    if (!lock(key, shared, permit)) return false;
    const bool told = page_.hold(permitOf(key, permit), shared, {7, 0, key}, place_);
    if (abandoned) *abandoned = told;
    return true;
  }
  bool holdPermit(const std::string& key, std::uint32_t permit, bool* abandoned = nullptr) {
    return hold(key, false, abandoned, permit);
  }
  // Without a wake.
  void freePermit(const std::string& key, std::uint32_t permit) {
    const std::uint64_t byte = permitOf(key, permit);
    page_.leave(byte, page_.placeOf(byte));
    file_->unlock(byte);
  }
  void free(const std::string& key) {
    page_.leave(byteOf(key), place_);
    file_->unlock(byteOf(key));
    page_.wakeNext(byteOf(key));
  }
  void enrol(const std::string& key, bool shared = false) {
    ProcessPage::Wait wait;
    wait.shared = shared;
    wait.since = elapsed();
    page_.enrol(byteOf(key), wait);
  }
  void withdraw(const std::string& key) { page_.withdraw(byteOf(key)); }

 private:
  std::unique_ptr<LockFile> file_;
  ProcessPage page_;
  std::int32_t place_ = ProcessPage::kNoPlace;
};

void sleepFor(double milliseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(static_cast<std::int64_t>(milliseconds * 1000)));
}

// From now on newcomers pass nobody that waits already.
void waitUntilNobodyMayPass() { sleepFor(2 * static_cast<double>(kBargingPeriod) / 1e6); }

// A blocked acquisition on a thread of its own.
class BlockedMember {
 public:
  BlockedMember(Member& member, ProcessRequest request)
      : thread_([this, &member, request] {
          outcome_ = member.sync(request);
          decided_.store(true);
        }) {}
  ~BlockedMember() { join(); }
  bool decided() const { return decided_.load(); }
  const ProcessOutcome& join() {
    if (thread_.joinable()) thread_.join();
    return outcome_;
  }

 private:
  ProcessOutcome outcome_;
  std::atomic<bool> decided_{false};
  std::thread thread_;
};

// Waits until this many acquisitions of this process are in queues. Then later waiters queue behind them, and each ceded
// key has its watcher. The waits that inspect() reports do not suffice: a thread that has a key's word but has not
// entered the gate counts as a waiter there. If the gate refuses that thread, the thread may queue behind later waiters.
bool awaitWaits(Member& member, std::size_t count) {
  return eventually([&] { return member.queued() >= count; });
}

// Whether it notices before long that somebody deleted or replaced the file.
bool awaitReplaced(Member& member) {
  return eventually([&] {
    const ProcessOutcome outcome = member.attempt(ask({"b"}));
    if (outcome.status == Result::kGranted) member.release(outcome.id);
    return outcome.error.fault == FileFault::kReplaced;
  });
}

// `count` keys in the order in which acquisitions of this process take them, as long as `first` lives.
std::vector<std::string> keysInOrder(Member& first, std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back("key " + std::to_string(i));
  std::sort(keys.begin(), keys.end(), [&](const std::string& a, const std::string& b) {
    return first.stripeOf(a) < first.stripeOf(b);
  });
  return keys;
}

ProcessRequest askUntil(std::vector<std::string> keys, bool shared = false) {
  ProcessRequest request = ask(std::move(keys), kForever, shared);
  request.mayGiveUp = true;
  return request;
}

// Grants a key to the event loop of `idle`, which does not look, and takes it back for `other` at its deadline.
void revokeGrant(Member& idle, Member& other) {
  const Patience patience(kAnHour);
  const std::uint32_t held = other.hold("granted");
  idle.pend(ask({"granted"}));
  other.release(held);
  const ProcessOutcome outcome = other.sync(ask({"granted"}, 20));
  ASSERT_EQ(outcome.status, Result::kGranted);
  other.release(outcome.id);
}

// Runs a function on a thread whose stack has this size.
void runOnSmallStack(std::size_t bytes, const std::function<void()>& run) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread{};
  const auto call = [](void* function) -> void* {
    (*static_cast<const std::function<void()>*>(function))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, call, const_cast<std::function<void()>*>(&run)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

FileFault faultOf(const std::string& path, const FileShape& shape = {}) {
  FileError error;
  EXPECT_FALSE(ProcessFile::open(path, "", shape, FileAccess::kUser, error));
  return error.fault;
}

}  // namespace

// ── who holds ──

TEST(Process, ExcludesOtherThreadsAndOtherProcesses) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  const std::uint32_t held = one.hold("a");
  EXPECT_FALSE(two.mayHave("a"));
  EXPECT_FALSE(one.mayHave("a"));
  EXPECT_FALSE(other.lock("a"));
  EXPECT_TRUE(two.mayHave("b"));
  one.release(held);
  EXPECT_TRUE(two.mayHave("a"));
  EXPECT_TRUE(other.lock("a"));
  EXPECT_FALSE(one.mayHave("a"));
}

TEST(Process, SharesAKeyUntilItsLastHolderReleases) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  const std::uint32_t first = one.hold("a", true);
  const std::uint32_t second = two.hold("a", true);
  one.release(first);
  EXPECT_FALSE(other.lock("a"));
  EXPECT_EQ(other.page().inspect().size(), 1u);
  EXPECT_FALSE(one.mayHave("a"));
  EXPECT_TRUE(other.lock("a", true));
  two.release(second);
  EXPECT_FALSE(one.mayHave("a"));
  other.file().unlock(other.byteOf("a"));
  EXPECT_TRUE(one.mayHave("a"));
}

TEST(Process, TakesAllKeysOrNone) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  const std::uint32_t held = one.hold("b");
  EXPECT_EQ(two.attempt(ask({"a", "b", "c", "a"})).status, Result::kTimedOut);
  EXPECT_EQ(two.sync(ask({"a", "b", "c"}, 5)).status, Result::kTimedOut);
  EXPECT_TRUE(other.lock("a"));
  EXPECT_TRUE(other.lock("c"));
  other.file().unlock(other.byteOf("a"));
  other.file().unlock(other.byteOf("c"));
  one.release(held);
  const ProcessOutcome all = two.attempt(ask({"a", "b", "c", "a"}));
  EXPECT_EQ(all.status, Result::kGranted);
  EXPECT_FALSE(other.lock("a") || other.lock("b") || other.lock("c"));
  two.release(all.id);
  EXPECT_TRUE(other.lock("a") && other.lock("b") && other.lock("c"));
}

TEST(Process, IssuesTokensThatRise) {
  const Folder folder;
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    Member one(folder.file());
    Member two(folder.file());
    for (Member* member : {&one, &two}) {
      const ProcessOutcome outcome = member->attempt(ask({"a"}));
      EXPECT_GT(outcome.token, last);
      last = outcome.token;
      member->release(outcome.id);
    }
  }
  // A process whose clock is ahead, as in another namespace of times.
  Other other(folder.file());
  const std::uint64_t ahead =
      other.page().issueToken({{other.byteOf("a"), 0}}, last + 3'600'000'000'000, elapsed());
  Member member(folder.file());
  EXPECT_GT(member.attempt(ask({"a"})).token, ahead);
}

// ── waiting ──

TEST(Process, WaitsForAnotherThread) {
  const Folder folder;
  // Otherwise the blocked thread takes the grant back if the event loop is slow.
  const NoSlices noSlices;
  Member one(folder.file());
  Member two(folder.file());
  Member three(folder.file());
  const std::uint32_t held = one.hold("a");
  const std::uint32_t pending = two.pend(ask({"a"}));
  BlockedMember blocked(three, ask({"a"}));
  EXPECT_TRUE(awaitWaits(one, 2));
  EXPECT_FALSE(two.take());
  one.release(held);
  const auto news = two.awaitNews();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->id, pending);
  EXPECT_FALSE(blocked.decided());
  two.release(pending);
  EXPECT_EQ(blocked.join().status, Result::kGranted);
  three.release(blocked.join().id);
}

TEST(Process, WaitsForAnotherProcess) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.hold("a"));
  BlockedMember blocked(two, ask({"a"}));
  EXPECT_TRUE(awaitWaits(one, 1));
  EXPECT_FALSE(blocked.decided());
  other.free("a");
  EXPECT_EQ(blocked.join().status, Result::kGranted);
  two.release(blocked.join().id);

  EXPECT_TRUE(other.hold("a"));
  const std::uint32_t pending = one.pend(ask({"a"}));
  other.free("a");
  ASSERT_TRUE(one.awaitNews());
  one.release(pending);
}

TEST(Process, DoesNotMissAReleaseBetweenItsTryAndItsPlaceInTheQueue) {
  const Folder folder;
  const NoSlices noSlices;
  static Other* other = nullptr;
  Member one(folder.file());
  Other theOther(folder.file());
  other = &theOther;
  EXPECT_TRUE(other->hold("a"));
  onSeam([](const char* point) {
    if (std::string_view(point) == "cede: before it queues") other->free("a");
  });
  one.pend(ask({"a"}));
  onSeam(nullptr);
  EXPECT_TRUE(one.awaitNews());
}

TEST(Process, DoesNotMissAReleaseOfALaterKeyOfAList) {
  const Folder folder;
  const NoSlices noSlices;
  static Other* other = nullptr;
  static std::string last;
  Member one(folder.file());
  const std::vector<std::string> keys = keysInOrder(one, 2);
  Member two(folder.file());
  Other theOther(folder.file());
  other = &theOther;
  last = keys[1];
  EXPECT_TRUE(other->hold(last));
  const std::uint32_t held = one.hold(keys[0]);
  const std::uint32_t pending = two.pend(ask(keys));
  onSeam([](const char* point) {
    // It has the first key, and was refused the other one.
    if (std::string_view(point) == "cede: before it queues") other->free(last);
  });
  one.release(held);
  auto news = two.take();
  onSeam(nullptr);
  if (!news) news = two.awaitNews();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->id, pending);
}

TEST(Process, WatchesALaterKeyOfAListThatWaitedBehindABlockedThread) {
  const Folder folder;
  const NoSlices noSlices;
  Member one(folder.file());
  const std::vector<std::string> keys = keysInOrder(one, 2);
  Member two(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.hold(keys[0]));
  EXPECT_TRUE(other.hold(keys[1]));
  BlockedMember first(one, ask({keys[0]}));
  EXPECT_TRUE(awaitWaits(two, 1));
  const std::uint32_t pending = two.pend(ask(keys));
  // The blocked thread watches the key. The file's thread ends after 200 ms without a key to watch.
  sleepFor(1000);
  other.free(keys[0]);
  one.release(first.join().id);
  EXPECT_FALSE(two.take());
  other.free(keys[1]);
  const auto news = two.awaitNews();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->id, pending);
}

namespace {

// A blocked thread sleeps on the process's word after this, unless the machine is slow.
void letItSleep(Member& member) {
  EXPECT_TRUE(awaitWaits(member, 1));
  sleepFor(30);
}

// Wakes all processes, so that a thread which missed a wake does not keep the test.
void wakeAll(Other& other) {
  for (int slot = 0; slot < 4; ++slot) other.page().wake(slot);
}

}  // namespace

TEST(Process, DoesNotMissAReleaseWhileABlockedThreadFallsAsleep) {
  const Folder folder;
  const NoSlices noSlices;
  static Other* other = nullptr;
  static std::atomic<bool> freed{false};
  Member one(folder.file());
  Other theOther(folder.file());
  other = &theOther;
  freed.store(false);
  EXPECT_TRUE(other->hold("a"));
  onSeam([](const char* point) {
    if (std::string_view(point) == "park: before it looks for a permit" && !freed.exchange(true))
      other->free("a");
  });
  BlockedMember blocked(one, ask({"a"}));
  EXPECT_TRUE(eventually([&] { return blocked.decided(); }));
  onSeam(nullptr);
  wakeAll(*other);
  EXPECT_EQ(blocked.join().status, Result::kGranted);
}

TEST(Process, WakesABlockedThreadThatSleepsForAnotherProcess) {
  const Folder folder;
  const NoSlices noSlices;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.lock("a"));
  BlockedMember blocked(one, ask({"a"}));
  letItSleep(two);
  // This wakes no thread.
  other.file().unlock(other.byteOf("a"));
  // It finds the key free at its deadline, and the first waiter gets it.
  EXPECT_EQ(two.sync(ask({"a"}, 1)).status, Result::kTimedOut);
  EXPECT_TRUE(eventually([&] { return blocked.decided(); }));
  wakeAll(other);
  EXPECT_EQ(blocked.join().status, Result::kGranted);
}

TEST(Process, KeepsWaitingForAnotherProcessWhenTheFirstWaiterGivesUp) {
  for (const bool blocks : {false, true}) {
    const Folder folder;
    const NoSlices noSlices;
    Member one(folder.file());
    Member two(folder.file());
    Other other(folder.file());
    EXPECT_TRUE(other.hold("a"));
    // The first waiter stays in the queue until the second one is behind it.
    Barrier barrier("wait: before it times out");
    BlockedMember first(one, ask({"a"}, 1));
    EXPECT_TRUE(awaitWaits(two, 1));
    std::optional<BlockedMember> second;
    if (blocks)
      second.emplace(two, ask({"a"}));
    else
      two.pend(ask({"a"}));
    EXPECT_TRUE(awaitWaits(one, 2));
    barrier.open();
    EXPECT_EQ(first.join().status, Result::kTimedOut);
    sleepFor(30);
    other.free("a");
    if (blocks) {
      EXPECT_TRUE(eventually([&] { return second->decided(); }));
      wakeAll(other);
      EXPECT_EQ(second->join().status, Result::kGranted);
    } else {
      EXPECT_TRUE(two.awaitNews());
    }
  }
}

namespace {

// Each thread has its own.
thread_local int timeouts = 0;
thread_local bool isSecond = false;
// All threads share these.
std::atomic<bool> mayTimeOut{false};
std::atomic<bool> hasTimedOut{false};
std::atomic<bool> stopped{false};
std::atomic<bool> released{false};

void awaitFlag(const std::atomic<bool>& flag) {
  while (!flag.load()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// Stops one thread until it is released.
void stopHere() {
  if (!stopped.exchange(true)) awaitFlag(released);
}

// A thread passes this point before it looks at the key, and again before it leaves the queue.
bool isTimeOut(std::string_view point) {
  if (point != "wait: before it times out") return false;
  awaitFlag(isSecond ? stopped : mayTimeOut);
  return ++timeouts == 2;
}

std::thread blockSecond(Member& member, double timeout, ProcessOutcome& outcome) {
  return std::thread([&member, timeout, &outcome] {
    isSecond = true;
    outcome = member.sync(ask({"a"}, timeout));
  });
}

void resetStops() {
  mayTimeOut.store(false);
  hasTimedOut.store(false);
  stopped.store(false);
  released.store(false);
}

}  // namespace

TEST(Process, WatchesAKeyForAnEventLoopWhenTheTwoThreadsBeforeItGiveUpAtOnce) {
  const Folder folder;
  const NoSlices noSlices;
  Member one(folder.file());
  Member two(folder.file());
  Member three(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.hold("a"));
  resetStops();
  onSeam([](const char* point) {
    // It has left the queue.
    if (!isTimeOut(point) && timeouts == 2 && std::string_view(point) == "process: before it looks")
      stopHere();
  });
  BlockedMember first(one, ask({"a"}, 1));
  EXPECT_TRUE(awaitWaits(three, 1));
  ProcessOutcome outcome;
  std::thread second = blockSecond(two, 1, outcome);
  EXPECT_TRUE(awaitWaits(three, 2));
  three.pend(ask({"a"}));
  mayTimeOut.store(true);
  EXPECT_TRUE(eventually([&] { return stopped.load() || first.decided(); }));
  stopped.store(true);
  second.join();
  EXPECT_EQ(outcome.status, Result::kTimedOut);
  released.store(true);
  EXPECT_EQ(first.join().status, Result::kTimedOut);
  onSeam(nullptr);
  other.free("a");
  EXPECT_TRUE(three.awaitNews());
}

TEST(Process, WatchesAKeyForAnEventLoopThatComesBackBeforeTheNextThreadSleeps) {
  const Folder folder;
  const NoSlices noSlices;
  Member one(folder.file());
  Member two(folder.file());
  Member three(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.hold("a"));
  const std::uint32_t held = one.hold("b");
  resetStops();
  onSeam([](const char* point) {
    if (isTimeOut(point)) hasTimedOut.store(true);
    if (isSecond && hasTimedOut.load() && std::string_view(point) == "wait: before parking") stopHere();
  });
  BlockedMember first(one, ask({"a"}, 1));
  EXPECT_TRUE(awaitWaits(three, 1));
  three.pend(ask({"a"}));
  ProcessOutcome outcome;
  std::thread second = blockSecond(two, kForever, outcome);
  BlockedMember away(three, ask({"b"}));
  EXPECT_TRUE(awaitWaits(one, 4));
  mayTimeOut.store(true);
  EXPECT_TRUE(eventually([] { return stopped.load(); }));
  EXPECT_EQ(first.join().status, Result::kTimedOut);
  one.release(held);
  EXPECT_EQ(away.join().status, Result::kGranted);
  released.store(true);
  other.free("a");
  const auto news = three.awaitNews();
  EXPECT_TRUE(news);
  onSeam(nullptr);
  if (news) three.release(news->id);
  wakeAll(other);
  second.join();
  EXPECT_EQ(outcome.status, Result::kGranted);
}

TEST(Process, SharesAKeyWithAnotherProcessWhenAWriterBeforeItGivesUpOrBlocks) {
  static std::atomic<bool> isWatched{false};
  for (const bool blocks : {false, true}) {
    const Folder folder;
    const NoSlices noSlices;
    isWatched.store(false);
    onSeam([](const char* point) {
      if (std::string_view(point) == "process: before its thread sleeps") isWatched.store(true);
    });
    Member one(folder.file());
    Member two(folder.file());
    Member three(folder.file());
    Other other(folder.file());
    EXPECT_TRUE(other.hold("a", true));
    const std::uint32_t held = one.hold("b");
    const std::uint32_t writer = two.pend(ask({"a"}));
    // The file's thread has checked the key for the writer, and checks it again only if it is woken.
    EXPECT_TRUE(eventually([] { return isWatched.load(); }));
    onSeam(nullptr);
    std::optional<BlockedMember> away;
    if (blocks) {
      away.emplace(two, ask({"b"}));
      EXPECT_TRUE(awaitWaits(one, 2));
    }
    // If the writer is passed over by then, it may be granted at once.
    const ProcessOutcome reader = three.async(ask({"a"}, kForever, true));
    if (!blocks) {
      EXPECT_EQ(reader.status, Result::kPending);
      EXPECT_FALSE(three.take());
      EXPECT_TRUE(two.cancel(writer));
    }
    if (reader.status == Result::kPending) {
      EXPECT_TRUE(three.awaitNews());
    }
    one.release(held);
  }
}

TEST(Process, KeepsWatchingForAnEventLoopThatWaitsAgain) {
  const Folder folder;
  const NoSlices noSlices;
  Member one(folder.file());
  Other other(folder.file());
  for (int round = 0; round < 10; ++round) {
    EXPECT_TRUE(other.hold("a"));
    const std::uint32_t pending = one.pend(ask({"a"}));
    other.free("a");
    ASSERT_TRUE(one.awaitNews());
    one.release(pending);
    // The file's thread has nothing to do now.
    sleepFor(5);
  }
}

TEST(Process, StopsWaitingInThePageWhenNobodyWaits) {
  const Folder folder;
  Member one(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.hold("a"));
  const std::uint32_t pending = one.pend(ask({"a"}));
  EXPECT_TRUE(other.page().mayBeAwaited(other.byteOf("a")));
  EXPECT_TRUE(one.cancel(pending));
  EXPECT_FALSE(other.page().mayBeAwaited(other.byteOf("a")));
  EXPECT_EQ(one.sync(ask({"a"}, 1)).status, Result::kTimedOut);
  EXPECT_FALSE(other.page().mayBeAwaited(other.byteOf("a")));
}

TEST(Process, WakesItsOwnEventLoopAfterAWaitThatWasInterrupted) {
  const Folder folder;
  const UsualSlices usual;
  static Member* holder = nullptr;
  static std::uint32_t held = 0;
  Member one(folder.file());
  Member two(folder.file());
  holder = &one;
  held = one.hold("a");
  one.hold("b");
  two.pend(ask({"a"}));
  const Interrupt interrupt{.requested = [](void*) {
    holder->release(held);
    return true;
  }};
  EXPECT_EQ(two.sync(ask({"b"}), interrupt).status, Result::kInterrupted);
  EXPECT_TRUE(two.environment().awaitWake(kStuck));
  EXPECT_TRUE(two.take());
}

TEST(Process, GivesUpAtItsDeadlineAndHoldsNothing) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  const std::uint32_t held = one.hold("a");
  const Nanoseconds start = now();
  EXPECT_EQ(two.sync(ask({"a"}, 30)).status, Result::kTimedOut);
  EXPECT_GE(now() - start, 30'000'000);
  const std::uint32_t pending = two.pend(ask({"a"}));
  EXPECT_TRUE(two.cancel(pending));
  EXPECT_FALSE(two.cancel(pending));
  one.release(held);
  EXPECT_FALSE(two.take());
  EXPECT_TRUE(one.mayHave("a"));
  EXPECT_EQ(two.pending(), 0u);
}

TEST(Process, EndsWhenItsHostWants) {
  const Folder folder;
  const UsualSlices usual;
  Member one(folder.file());
  Member two(folder.file());
  one.hold("a");
  const Interrupt interrupt{.requested = [](void*) { return true; }};
  EXPECT_EQ(two.sync(ask({"a"}), interrupt).status, Result::kInterrupted);
}

TEST(Process, KeepsNoGrantForAScriptThatIsEnded) {
  const Folder folder;
  static Member* holder = nullptr;
  static std::uint32_t held = 0;
  static int asked = 0;
  Member one(folder.file());
  Member two(folder.file());
  holder = &one;
  {
    // After the first slice the script may be ended, too.
    const UsualSlices usual;
    asked = 0;
    held = one.hold("a");
    const Interrupt interrupt{.requested = [](void*) {
      if (++asked > 1) return true;
      holder->release(held);
      return false;
    }};
    EXPECT_EQ(two.sync(ask({"a"}), interrupt).status, Result::kInterrupted);
    EXPECT_EQ(asked, 2);
    EXPECT_TRUE(one.mayHave("a"));
  }
  const NoSlices noSlices;
  held = one.hold("a");
  ProcessOutcome outcome;
  std::thread blocked([&] { outcome = two.sync(ask({"a"}), {.ending = [](void*) { return true; }}); });
  EXPECT_TRUE(awaitWaits(one, 1));
  one.release(held);
  blocked.join();
  EXPECT_EQ(outcome.status, Result::kInterrupted);
  EXPECT_TRUE(one.mayHave("a"));
}

TEST(Process, DoesNotLetNewcomersPassWhoHasWaitedLong) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  Member three(folder.file());
  const std::uint32_t held = one.hold("a", true);
  const std::uint32_t writer = two.pend(ask({"a"}));
  waitUntilNobodyMayPass();
  EXPECT_FALSE(three.mayHave("a", true));
  one.release(held);
  ASSERT_TRUE(two.awaitNews());
  two.release(writer);
  EXPECT_TRUE(three.mayHave("a", true));
}

TEST(Process, KeepsAFreeKeyForAThreadThatHasWaitedLong) {
  const Folder folder;
  const NoSlices noSlices;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.lock("a"));
  const std::uint32_t pending = one.pend(ask({"a"}));
  waitUntilNobodyMayPass();
  // This wakes no thread.
  other.file().unlock(other.byteOf("a"));
  EXPECT_FALSE(two.mayHave("a"));
  other.page().wakeNext(other.byteOf("a"));
  ASSERT_TRUE(one.awaitNews());
  one.release(pending);
}

namespace {

// `counts`: the thread was not stopped for so long that other answers would be right, too.
void keepAKeyAfterAHandOver(bool& counts) {
  const Folder folder;
  // A thread that is slow to wake loses its turn to the other, and looks again later.
  const UsualSlices usual;
  Member one(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.lock("a"));
  const std::uint32_t pending = one.pend(ask({"a"}));
  other.enrol("a");
  waitUntilNobodyMayPass();
  const Nanoseconds start = now();
  other.file().unlock(other.byteOf("a"));
  other.page().wakeNext(other.byteOf("a"));
  ASSERT_TRUE(one.awaitNews());
  one.release(pending);
  const bool again = one.mayHave("a");
  const bool mayKeep = now() - start < kBargingPeriod;
  if (mayKeep) {
    EXPECT_TRUE(again);
  }
  waitUntilNobodyMayPass();
  // Free it once more, so that the turn is given.
  const Nanoseconds given = now();
  if (again) static_cast<void>(one.mayHave("a"));
  const bool passed = one.mayHave("a");
  // Otherwise the turn was given before, and may be over.
  const bool isGiven = again && now() - given < kTurnFor;
  if (isGiven) {
    EXPECT_FALSE(passed);
  }
  EXPECT_TRUE(other.lock("a"));
  counts = mayKeep && isGiven;
}

}  // namespace

TEST(Process, LetsItsProcessKeepAKeyForAWhileAfterAHandOver) {
  int attempts = 0;
  for (bool counts = false; !counts; ++attempts) {
    ASSERT_LT(attempts, 1000);
    ASSERT_NO_FATAL_FAILURE(keepAKeyAfterAHandOver(counts));
  }
}

TEST(Process, ServesAllThatMayShareAtOnce) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  Member three(folder.file());
  const std::uint32_t held = one.hold("a");
  two.pend(ask({"a"}, kForever, true));
  three.pend(ask({"a"}, kForever, true));
  one.release(held);
  EXPECT_TRUE(two.awaitNews());
  EXPECT_TRUE(three.awaitNews());
}

TEST(Process, GoesOnWithTheOtherKeysOfAWaiter) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  const std::uint32_t a = one.hold("a");
  EXPECT_TRUE(other.hold("b"));
  const std::uint32_t pending = two.pend(ask({"a", "b", "c"}));
  one.release(a);
  sleepFor(5);
  EXPECT_FALSE(two.take());
  other.free("b");
  ASSERT_TRUE(two.awaitNews());
  EXPECT_FALSE(one.mayHave("a") || one.mayHave("b") || one.mayHave("c"));
  two.release(pending);
}

// ── turns ──

TEST(Process, KeepsAKeyForTheProcessThatHasWaitedLong) {
  const Folder folder;
  Member one(folder.file());
  Other other(folder.file());
  const std::uint32_t held = one.hold("a");
  other.enrol("a");
  waitUntilNobodyMayPass();
  one.release(held);
  EXPECT_EQ(other.page().goesBefore(other.byteOf("a"), false, 0), kNoSlot);
  const Nanoseconds freed = now();
  const bool passed = one.mayHave("a");
  // A stopped test does not count.
  if (now() - freed < kTurnFor) {
    EXPECT_FALSE(passed);
  }
  EXPECT_TRUE(other.hold("a"));
  other.page().takeTurn(other.byteOf("a"));
  other.withdraw("a");
  other.free("a");
  EXPECT_TRUE(one.mayHave("a"));
}

namespace {

// A release whose turn is another process's, while a thread of this process waits. `counts`: see keepAKeyAfterAHandOver().
void cedeAtARelease(bool blocks, bool& counts) {
  const Folder folder;
  const NoSlices noSlices;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  const std::uint32_t held = one.hold("a");
  std::optional<BlockedMember> blocked;
  if (blocks)
    blocked.emplace(two, ask({"a"}));
  else
    two.pend(ask({"a"}));
  EXPECT_TRUE(awaitWaits(one, 1));
  other.enrol("a");
  waitUntilNobodyMayPass();
  const Nanoseconds freed = now();
  one.release(held);
  const bool isCalled = two.hasReady();
  const bool got = other.hold("a");
  counts = now() - freed < kTurnFor;
  if (counts) {
    EXPECT_FALSE(isCalled);
    EXPECT_TRUE(got);
  }
  if (got) {
    other.page().takeTurn(other.byteOf("a"));
    other.withdraw("a");
    sleepFor(5);
    other.free("a");
  }
  if (blocks) {
    EXPECT_TRUE(eventually([&] { return blocked->decided(); }));
    wakeAll(other);
    EXPECT_EQ(blocked->join().status, Result::kGranted);
  } else {
    EXPECT_TRUE(two.awaitNews());
  }
}

}  // namespace

TEST(Process, GivesAKeyToAnotherProcessAndGetsItBackForItsOwnWaiters) {
  for (const bool blocks : {false, true}) {
    int attempts = 0;
    for (bool counts = false; !counts; ++attempts) {
      ASSERT_LT(attempts, 1000);
      ASSERT_NO_FATAL_FAILURE(cedeAtARelease(blocks, counts));
    }
  }
}

namespace {

// Tests that a reader does not join the readers of its process while a writer of another process goes first.
void joinPastAWriter(bool& counts) {
  const Folder folder;
  const UsualSlices usual;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  one.hold("a", true);
  const Nanoseconds start = now();
  other.enrol("a");
  const ProcessOutcome outcome = two.async(ask({"a"}, kForever, true));
  const bool isCalled = two.hasReady();
  // A writer that has not tried for a while does not count.
  counts = now() - start < 20 * kMillisecond;
  if (!counts) return;
  ASSERT_EQ(outcome.status, Result::kPending);
  EXPECT_FALSE(isCalled);
  other.withdraw("a");
  // Readers of this process still hold it.
  EXPECT_TRUE(two.awaitNews());
}

}  // namespace

TEST(Process, LetsAReaderJoinOthersWhenAWriterOfAnotherProcessGivesUp) {
  int attempts = 0;
  for (bool counts = false; !counts; ++attempts) {
    ASSERT_LT(attempts, 1000);
    ASSERT_NO_FATAL_FAILURE(joinPastAWriter(counts));
  }
}

TEST(Process, KeepsTheTurnsOfAListWhileItWaitsForOneOfItsKeys) {
  for (const bool blocks : {false, true}) {
    const Folder folder;
    Member one(folder.file());
    Other first(folder.file());
    Other second(folder.file());
    std::string high = "a";
    std::string low = "b";
    if (first.byteOf(high) < first.byteOf(low)) std::swap(high, low);
    EXPECT_TRUE(first.hold(high));
    EXPECT_TRUE(second.hold(low));
    std::optional<BlockedMember> blocked;
    if (blocks)
      blocked.emplace(one, ask({high, low}));
    else
      one.pend(ask({high, low}));
    Member seer(folder.file());
    EXPECT_TRUE(awaitWaits(seer, 1));
    const auto isKept = [&] { return first.page().goesBefore(first.byteOf(high), false, 0) != kNoSlot; };
    EXPECT_FALSE(isKept());
    first.free(high);
    // Longer than a turn, and as often as the process looks.
    for (int round = 0; round < 3; ++round) {
      EXPECT_TRUE(eventually([&] {
        if (!blocks) {
          EXPECT_FALSE(one.take());
        }
        return isKept();
      }));
      sleepFor(2 * static_cast<double>(kTurnFor) / 1e6);
    }
    second.free(low);
    if (blocks) {
      EXPECT_EQ(blocked->join().status, Result::kGranted);
    } else {
      EXPECT_TRUE(one.awaitNews());
    }
    EXPECT_FALSE(isKept());
  }
}

TEST(Process, KeepsAFreeKeyOfAListWhileItBlocksForAnother) {
  const Folder folder;
  const NoSlices noSlices;
  Member one(folder.file());
  Other other(folder.file());
  // Bytes are locked from the highest one down.
  std::string high = "a";
  std::string low = "b";
  if (other.byteOf(high) < other.byteOf(low)) std::swap(high, low);
  EXPECT_TRUE(other.hold(low));
  BlockedMember blocked(one, ask({high, low}));
  EXPECT_TRUE(eventually([&] { return other.page().goesBefore(other.byteOf(high), false, 0) != kNoSlot; }));
  other.free(low);
  EXPECT_EQ(blocked.join().status, Result::kGranted);
}

TEST(Process, AsksForAKeyOnceBeforeItBlocks) {
  const Folder folder;
  const NoSlices noSlices;
  static std::atomic<int> locks{0};
  Member one(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.hold("a"));
  locks.store(0);
  onSeam([](const char* point) {
    if (std::string_view(point) == "process: before it locks") locks.fetch_add(1);
  });
  BlockedMember blocked(one, ask({"a"}));
  EXPECT_TRUE(eventually([&] { return other.page().mayBeAwaited(other.byteOf("a")); }));
  EXPECT_EQ(locks.load(), 1);
  onSeam(nullptr);
  other.free("a");
  EXPECT_EQ(blocked.join().status, Result::kGranted);
}

TEST(Process, DoesNotStarveAListByHoldersThatTakeItsKeysInTurns) {
  const Folder folder;
  const UsualSlices usual;
  Member one(folder.file());
  std::atomic<bool> done{false};
  const auto hold = [&](const std::string& key) {
    Other other(folder.file());
    while (!done.load()) {
      other.enrol(key);
      if (other.lock(key)) {
        if (other.page().goesBefore(other.byteOf(key), false, elapsed()) == kNoSlot) {
          other.page().takeTurn(other.byteOf(key));
          other.withdraw(key);
          sleepFor(15);
          other.page().giveTurn(other.byteOf(key), elapsed());
        }
        other.file().unlock(other.byteOf(key));
        other.page().wakeNext(other.byteOf(key));
      }
    }
    other.withdraw(key);
  };
  std::thread first(hold, "a");
  std::thread second(hold, "b");
  for (int round = 0; round < 3; ++round) {
    const ProcessOutcome outcome = one.sync(ask({"a", "b"}, kStuck));
    EXPECT_EQ(outcome.status, Result::kGranted);
    if (outcome.status == Result::kGranted) one.release(outcome.id);
  }
  done.store(true);
  first.join();
  second.join();
}

TEST(Process, KeepsNoOtherKeyForAProcessThatWaitsForMany) {
  const Folder folder;
  Member one(folder.file());
  Other other(folder.file());
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back("wanted " + std::to_string(i));
  std::vector<std::uint32_t> held;
  for (const std::string& key : keys) {
    held.push_back(one.hold(key));
    other.enrol(key);
  }
  waitUntilNobodyMayPass();
  for (const std::uint32_t id : held) one.release(id);
  for (int i = 0; i < 2000; ++i) {
    const std::string key = "free " + std::to_string(i);
    EXPECT_TRUE(one.mayHave(key)) << key;
    EXPECT_TRUE(one.mayHave(key)) << key;
  }
}

TEST(Process, BelievesATurnForALimitedTime) {
  const Folder folder;
  Member one(folder.file());
  Other other(folder.file());
  const std::uint32_t held = one.hold("a");
  other.enrol("a");
  Other giver(folder.file());
  giver.page().giveTurn(other.byteOf("a"), elapsed() + 3'600'000'000'000);
  EXPECT_TRUE(one.mayHave("b"));
  one.release(held);
  sleepFor(2 * static_cast<double>(kTurnFor) / 1e6);
  const std::uint32_t again = one.hold("a");
  // The other one did not use its turn. It is passed over now, until it tries.
  one.release(again);
  EXPECT_TRUE(one.mayHave("a"));
  EXPECT_TRUE(one.mayHave("a"));
}

// An event loop that needs longer than a turn lasts would otherwise miss each turn.
TEST(Process, KeepsAKeyForLongerWhenAnEventLoopHasMissedItsTurns) {
  const Folder folder;
  Member one(folder.file());
  Other other(folder.file());
  const std::uint64_t byte = other.byteOf("a");
  EXPECT_TRUE(other.hold("a"));
  one.pend(ask({"a"}));
  // How long the event loop takes to run.
  const Nanoseconds late = 5 * kTurnFor;
  sleepFor(2 * static_cast<double>(late) / 1e6);
  // A stopped test does not count: a turn ends by itself.
  EXPECT_TRUE(eventually([&] {
    other.page().giveTurn(byte, elapsed() - late);
    if (other.page().goesBefore(byte, false, elapsed()) != kNoSlot) return true;
    // The process tries, but its turn has ended, and another process has the key by now.
    other.file().unlock(byte);
    other.page().wakeNext(byte);
    EXPECT_TRUE(eventually([&] { return one.hasReady(); }));
    EXPECT_TRUE(other.lock("a"));
    EXPECT_FALSE(one.take());
    return false;
  }));
  other.free("a");
  EXPECT_TRUE(one.awaitNews());
}

TEST(Process, DoesNotLetReadersPassAWriterOfAnotherProcess) {
  const Folder folder;
  Member one(folder.file());
  Other reader(folder.file());
  auto writer = std::make_optional<Other>(folder.file());
  EXPECT_TRUE(reader.hold("a", true));
  writer->enrol("a");
  const Nanoseconds start = now();
  const bool passed = one.mayHave("a", true);
  // A stopped test does not count.
  if (now() - start < 50'000'000) {
    EXPECT_FALSE(passed);
  }
  // One that does not try any more keeps nobody out.
  EXPECT_TRUE(eventually([&] { return one.mayHave("a", true); }));
}

TEST(Process, WakesOnlyTheProcessThatItLetsGoFirst) {
  const Folder folder;
  Member one(folder.file());
  Other reader(folder.file());
  Other writer(folder.file());
  // In the portable build no process can wake another one.
  WakeWord word;
  word.use(writer.page().wakeWord());
  // A stopped test does not count: the writer must have tried a short time ago. Each round has its own key, because the
  // last one may have given the turn at its key.
  int rounds = 0;
  EXPECT_TRUE(eventually([&] {
    const std::string key = "a" + std::to_string(rounds++);
    reader.enrol(key, true);
    writer.enrol(key);
    const std::uint32_t wakesOfReader = reader.page().wakeWord()->load();
    const std::uint32_t wakesOfWriter = writer.page().wakeWord()->load();
    const bool passed = one.mayHave(key, true);
    if (!passed) {
      EXPECT_EQ(reader.page().wakeWord()->load(), wakesOfReader);
      EXPECT_EQ(writer.page().wakeWord()->load() > wakesOfWriter, word.isReachable());
    }
    reader.withdraw(key);
    writer.withdraw(key);
    return !passed;
  }));
}

TEST(Process, DoesNotLockAKeyThatIsKeptForAnotherProcess) {
  const Folder folder;
  static std::atomic<int> locks{0};
  Member one(folder.file());
  Other other(folder.file());
  // A stopped test does not count: a turn ends after a while by itself.
  EXPECT_TRUE(eventually([&] {
    other.withdraw("a");
    const std::uint32_t held = one.hold("a");
    other.enrol("a");
    waitUntilNobodyMayPass();
    const Nanoseconds freed = now();
    one.release(held);
    locks.store(0);
    onSeam([](const char* point) {
      if (std::string_view(point) == "process: before it locks") locks.fetch_add(1);
    });
    const bool passed = one.mayHave("a");
    onSeam(nullptr);
    if (now() - freed >= kTurnFor / 2) return false;
    EXPECT_FALSE(passed);
    EXPECT_EQ(locks.load(), 0);
    return true;
  }));
  other.withdraw("a");
  EXPECT_TRUE(one.mayHave("a"));
}

TEST(Process, WakesAProcessOnceUntilItTriesAgain) {
  const Folder folder;
  Other waits(folder.file());
  Other releases(folder.file());
  const std::uint64_t byte = waits.byteOf("a");
  WakeWord word;
  word.use(waits.page().wakeWord());
  const std::uint32_t one = word.isReachable() ? 1 : 0;
  const std::uint32_t before = word.wakes();
  for (std::uint32_t tries = 1; tries <= 3; ++tries) {
    waits.enrol("a");
    for (int release = 0; release < 3; ++release) releases.page().wakeNext(byte);
    EXPECT_EQ(word.wakes() - before, tries * one);
  }
  // The process is awake for another key, and has not tried for this one since.
  waits.enrol("a");
  waits.page().wake(waits.page().slot());
  releases.page().wakeNext(byte);
  EXPECT_EQ(word.wakes() - before, 4 * one);
}

// The process that waits behind a dead one would otherwise find the free key when it polls, up to 250 ms later.
TEST(Process, WakesTheProcessBehindOneThatDied) {
  for (const bool shared : {false, true}) {
    const Folder folder;
    auto dead = std::make_optional<Other>(folder.file());
    Other waits(folder.file());
    Other releases(folder.file());
    WakeWord word;
    word.use(waits.page().wakeWord());
    const std::uint32_t before = word.wakes();
    for (const char* const key : {"a", "b"}) {
      dead->enrol(key, shared);
      waits.enrol(key);
    }
    dead.reset();
    releases.page().wakeNext(releases.byteOf("a"));
    const std::uint32_t one = word.isReachable() ? 1 : 0;
    EXPECT_EQ(word.wakes() - before, one);
    // The dead process was woken for the other key, so that its wait for this key would seem to be awake.
    waits.enrol("b");
    releases.page().wakeNext(releases.byteOf("b"));
    EXPECT_EQ(word.wakes() - before, 2 * one);
  }
}

TEST(Process, WakesTheProcessBehindOneThatDiedAfterItsWake) {
  const Folder folder;
  auto dead = std::make_optional<Other>(folder.file());
  Other waits(folder.file());
  Other releases(folder.file());
  WakeWord word;
  word.use(waits.page().wakeWord());
  const std::uint32_t before = word.wakes();
  dead->enrol("a");
  waits.enrol("a");
  dead->page().wake(dead->page().slot());
  dead.reset();
  EXPECT_TRUE(eventually([&] {
    releases.page().wakeNext(releases.byteOf("a"));
    return !word.isReachable() || word.wakes() != before;
  }));
}

TEST(Process, WakesNoOtherProcessForOneThatLivesAndIsAwake) {
  const Folder folder;
  Other awake(folder.file());
  Other waits(folder.file());
  Other releases(folder.file());
  awake.enrol("a");
  waits.enrol("a");
  const std::uint32_t before = waits.page().wakeWord()->load();
  // The first wake finds no sleeping thread. The others find a process that is awake, at last one that has not tried for
  // long.
  for (const double pause : {0.0, 0.0, 100.0}) {
    sleepFor(pause);
    releases.page().wakeNext(releases.byteOf("a"));
  }
  EXPECT_EQ(waits.page().wakeWord()->load(), before);
}

TEST(Process, FindsTheLastOfManyReleasesThatWakeItInVain) {
  for (int round = 0; round < 20; ++round) {
    const Folder folder;
    const NoSlices noSlices;
    Member one(folder.file());
    Other other(folder.file());
    EXPECT_TRUE(other.hold("a"));
    BlockedMember blocked(one, ask({"a"}));
    EXPECT_TRUE(awaitWaits(one, 1));
    bool isHeld = true;
    for (int release = 0; isHeld && release < 200; ++release) {
      other.free("a");
      // The blocked thread may be faster.
      isHeld = other.hold("a");
    }
    if (isHeld) other.free("a");
    EXPECT_TRUE(eventually([&] { return blocked.decided(); }));
    wakeAll(other);
    EXPECT_EQ(blocked.join().status, Result::kGranted);
  }
}

TEST(Process, KeepsAKeyNoLongerForAProcessThatTookItsTurn) {
  const Folder folder;
  Other one(folder.file());
  Other two(folder.file());
  const std::uint64_t byte = one.byteOf("a");
  const auto first = [&] { return two.page().goesBefore(byte, false, elapsed()); };
  // A stopped test does not count: a turn ends after a while by itself.
  EXPECT_TRUE(eventually([&] {
    one.withdraw("a");
    one.enrol("a");
    waitUntilNobodyMayPass();
    const Nanoseconds start = elapsed();
    two.page().giveTurn(byte, start);
    const bool wasKept = first() == one.page().slot();
    one.page().takeTurn(byte);
    const int after = first();
    if (!wasKept || elapsed() - start > kTurnFor / 2) return false;
    EXPECT_EQ(after, kNoSlot);
    return true;
  }));
}

TEST(Process, WakesAllProcessesThatWaitToShareAKey) {
  const Folder folder;
  Other one(folder.file());
  Other two(folder.file());
  Other writer(folder.file());
  Other releases(folder.file());
  one.enrol("a", true);
  two.enrol("a", true);
  writer.enrol("a");
  WakeWord word;
  word.use(writer.page().wakeWord());
  const auto wakes = [](Other& of) { return of.page().wakeWord()->load(); };
  const std::uint32_t before[] = {wakes(one), wakes(two), wakes(writer)};
  releases.page().wakeNext(releases.byteOf("a"));
  EXPECT_EQ(wakes(one) > before[0], word.isReachable());
  EXPECT_EQ(wakes(two) > before[1], word.isReachable());
  EXPECT_EQ(wakes(writer), before[2]);
}

TEST(Process, SharesAKeyThatIsKeptForAnotherReader) {
  const Folder folder;
  Member one(folder.file());
  Other reader(folder.file());
  reader.enrol("a", true);
  Other giver(folder.file());
  waitUntilNobodyMayPass();
  giver.page().giveTurn(giver.byteOf("a"), elapsed());
  EXPECT_TRUE(one.mayHave("a", true));
}

TEST(Process, PassesOverAProcessThatDied) {
  const Folder folder;
  Member one(folder.file());
  auto other = std::make_optional<Other>(folder.file());
  other->enrol("a");
  other.reset();
  waitUntilNobodyMayPass();
  one.release(one.hold("a"));
  EXPECT_TRUE(one.mayHave("a"));
}

TEST(Process, KeepsNoKeyForAProcessThatDiedWhileItHadTheTurn) {
  const Folder folder;
  Member one(folder.file());
  auto other = std::make_optional<Other>(folder.file());
  other->enrol("a");
  waitUntilNobodyMayPass();
  one.release(one.hold("a"));
  other.reset();
  EXPECT_TRUE(one.mayHave("a"));
}

TEST(Process, KeepsNoByteForAnEventLoopThatDoesNotCome) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  const std::uint32_t held = one.hold("a");
  const std::uint32_t pending = two.pend(ask({"a"}));
  one.release(held);
  // It has been granted the key within the process, and does not look.
  EXPECT_TRUE(two.environment().awaitWake(kStuck));
  EXPECT_TRUE(other.hold("a"));
  EXPECT_FALSE(two.take());
  other.free("a");
  const auto news = two.awaitNews();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->id, pending);
}

TEST(Process, TakesAGrantBackForAnotherThread) {
  const Folder folder;
  const UsualSlices usual;
  Member one(folder.file());
  Member two(folder.file());
  Member three(folder.file());
  const std::uint32_t held = one.hold("a");
  const std::uint32_t pending = two.pend(ask({"a"}));
  BlockedMember blocked(three, ask({"a"}));
  one.release(held);
  EXPECT_EQ(blocked.join().status, Result::kGranted);
  EXPECT_FALSE(two.take());
  three.release(blocked.join().id);
  const auto news = two.awaitNews();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->id, pending);
}

TEST(Process, TakesAnIdleGrantBackAtTheDeadlineOfABlockedThread) {
  const Folder folder;
  const NoSlices noSlices;
  Member one(folder.file());
  Member two(folder.file());
  ASSERT_NO_FATAL_FAILURE(revokeGrant(two, one));
}

TEST(Process, GrantsAgainToAThreadThatComesBackAfterAGrantWasTakenBack) {
  const Folder folder;
  // No other thread serves it.
  const NoSlices noSlices;
  Member one(folder.file());
  Member two(folder.file());
  ASSERT_NO_FATAL_FAILURE(revokeGrant(two, one));
  EXPECT_TRUE(one.mayHave("granted"));
  EXPECT_TRUE(two.take());
  EXPECT_FALSE(one.mayHave("granted"));
}

TEST(Process, LetsABlockedThreadPassItsOwnWaiters) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  const std::uint32_t held = one.hold("a");
  const std::uint32_t pending = two.pend(ask({"b", "a"}));
  const std::uint32_t later = two.pend(ask({"a"}));
  BlockedMember blocked(two, ask({"a"}));
  EXPECT_TRUE(awaitWaits(one, 3));
  EXPECT_TRUE(one.mayHave("b"));
  one.release(held);
  EXPECT_EQ(blocked.join().status, Result::kGranted);
  EXPECT_FALSE(two.take());
  two.release(blocked.join().id);
  const auto first = two.awaitNews();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->id, pending);
  two.release(pending);
  const auto second = two.awaitNews();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->id, later);
}

// ── deadlocks ──

TEST(Process, RefusesToWaitForItself) {
  const Folder folder;
  Member one(folder.file());
  one.hold("a");
  const ProcessOutcome refused = one.sync(ask({"b", "a"}));
  EXPECT_EQ(refused.status, Result::kDeadlock);
  ASSERT_EQ(refused.cycle.size(), 1u);
  EXPECT_EQ(refused.cycle[0].threadId, one.environment().threadId());
  EXPECT_EQ(refused.cycle[0].key, "a");
  Other other(folder.file());
  EXPECT_TRUE(other.lock("b"));
}

TEST(Process, RefusesACycleOfThreads) {
  const Folder folder;
  const UsualSlices usual;
  Member one(folder.file());
  Member two(folder.file());
  const std::uint32_t a = one.hold("a");
  const std::uint32_t b = two.hold("b");
  BlockedMember forA(two, ask({"a"}));
  EXPECT_TRUE(awaitWaits(one, 1));
  BlockedMember forB(one, ask({"b"}));
  // The thread that looks last finds the cycle.
  ASSERT_TRUE(eventually([&] { return forA.decided() || forB.decided(); }));
  const bool first = forA.decided();
  const ProcessOutcome& refused = first ? forA.join() : forB.join();
  EXPECT_EQ(refused.status, Result::kDeadlock);
  EXPECT_EQ(refused.cycle.size(), 2u);
  const std::int32_t threads[] = {one.environment().threadId(), two.environment().threadId()};
  for (std::size_t i = 0; i < refused.cycle.size(); ++i) {
    const bool waitsForA = (i == 0) == first;
    EXPECT_EQ(refused.cycle[i].threadId, threads[waitsForA ? 1 : 0]);
    EXPECT_EQ(refused.cycle[i].key, waitsForA ? "a" : "b");
  }
  if (first)
    two.release(b);
  else
    one.release(a);
  EXPECT_EQ((first ? forB : forA).join().status, Result::kGranted);
}

TEST(Process, DoesNotRefuseToWaitForAListThatMayGiveUp) {
  const Folder folder;
  const UsualSlices usual;
  Member one(folder.file());
  const std::vector<std::string> keys = keysInOrder(one, 2);
  Member two(folder.file());
  two.hold(keys[1]);
  const std::uint32_t pending = one.pend(askUntil(keys));
  BlockedMember blocked(two, ask({keys[0]}));
  EXPECT_TRUE(awaitWaits(one, 2));
  EXPECT_TRUE(one.cancel(pending));
  EXPECT_EQ(blocked.join().status, Result::kGranted);
}

TEST(Process, DoesNotRefuseAReaderBehindAWriterThatMayGiveUpOrIsPassed) {
  const Folder folder;
  const UsualSlices usual;
  Member one(folder.file());
  Member two(folder.file());
  Member three(folder.file());
  Member four(folder.file());
  one.hold("a", true);
  const std::uint32_t b = two.hold("b");
  const std::uint32_t c = four.hold("c");
  const std::uint32_t writer = four.pend(askUntil({"a"}));
  // Its thread blocks, so others pass it.
  three.pend(ask({"a"}));
  BlockedMember passed(three, ask({"c"}));
  BlockedMember reader(one, ask({"b"}));
  EXPECT_TRUE(awaitWaits(four, 4));
  waitUntilNobodyMayPass();
  // Waits for the first writer alone. It shares the key with the thread that waits for it.
  BlockedMember blocked(two, ask({"a"}, kForever, true));
  EXPECT_TRUE(awaitWaits(four, 5));
  EXPECT_TRUE(four.cancel(writer));
  EXPECT_EQ(blocked.join().status, Result::kGranted);
  two.release(b);
  EXPECT_EQ(reader.join().status, Result::kGranted);
  four.release(c);
  EXPECT_EQ(passed.join().status, Result::kGranted);
}

TEST(Process, FailsAnyNumberOfWaitersOnASmallStack) {
  const Folder folder;
  constexpr std::size_t kWaiters = 3000;
  Member one(folder.file(), 16);
  const std::vector<std::string> keys = keysInOrder(one, kWaiters + 1);
  Member two(folder.file());
  const std::uint32_t held = one.hold(keys[kWaiters]);
  // Each holds a key that the next one waits for.
  for (std::size_t i = kWaiters; i > 0; --i) two.pend(ask({keys[i - 1], keys[i]}));
  ASSERT_EQ(unlink(folder.file().c_str()), 0);
  // Or the release does not look at the file again.
  sleepFor(2);
  runOnSmallStack(128 * 1024, [&] { one.release(held); });
  std::size_t failed = 0;
  while (const auto news = two.awaitNews()) {
    EXPECT_EQ(news->error.fault, FileFault::kReplaced);
    if (++failed == kWaiters) break;
  }
  EXPECT_EQ(failed, kWaiters);
}

// ── deaths ──

TEST(Process, TellsTheNextOfAProcessThatDied) {
  const Folder folder;
  Member one(folder.file());
  auto other = std::make_optional<Other>(folder.file());
  EXPECT_TRUE(other->hold("a"));
  other.reset();
  const ProcessOutcome reader = one.attempt(ask({"a"}, 0, true));
  EXPECT_TRUE(reader.abandoned);
  one.release(reader.id);
  const ProcessOutcome writer = one.attempt(ask({"a"}));
  EXPECT_TRUE(writer.abandoned);
  one.release(writer.id);
  EXPECT_FALSE(one.attempt(ask({"a"})).abandoned);
}

TEST(Process, DoesNotTellOfAReaderThatDied) {
  const Folder folder;
  Member one(folder.file());
  auto other = std::make_optional<Other>(folder.file());
  EXPECT_TRUE(other->hold("a", true));
  other.reset();
  EXPECT_FALSE(one.attempt(ask({"a"})).abandoned);
}

TEST(Process, EntersAFreeKeyAtOnceAndLeavesAllReportsToTheAcquisitionThatFollows) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  EXPECT_TRUE(one.tryEnter("a"));
  EXPECT_FALSE(two.tryEnter("a"));
  EXPECT_TRUE(one.leave("a"));
  auto other = std::make_optional<Other>(folder.file());
  EXPECT_TRUE(other->hold("a"));
  EXPECT_FALSE(one.tryEnter("a"));
  other.reset();
  // It has left both the word and the byte, and the death is still reported.
  EXPECT_FALSE(one.tryEnter("a"));
  const ProcessOutcome next = two.attempt(ask({"a"}));
  EXPECT_EQ(next.status, Result::kGranted);
  EXPECT_TRUE(next.abandoned);
  two.release(next.id);
  EXPECT_TRUE(one.tryEnter("a"));
  EXPECT_TRUE(one.leave("a"));
}

TEST(Process, TellsOfAThreadThatEnded) {
  const Folder folder;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  one.hold("a");
  one.hold("b");
  one.hold("c", true);
  const std::uint32_t pending = two.pend(ask({"b"}));
  one.end();
  const auto news = two.awaitNews();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->id, pending);
  EXPECT_TRUE(news->abandoned);
  bool abandoned = false;
  EXPECT_TRUE(other.hold("a", false, &abandoned));
  EXPECT_TRUE(abandoned);
  EXPECT_TRUE(other.hold("c", false, &abandoned));
  EXPECT_FALSE(abandoned);
}

TEST(Process, TellsTheNextWhatNobodyHasHeard) {
  const Folder folder;
  // No process is woken when another one dies.
  const UsualSlices usual;
  Member one(folder.file());
  Other other(folder.file());
  auto dead = std::make_optional<Other>(folder.file());
  EXPECT_TRUE(dead->hold("a"));
  const std::uint32_t pending = one.pend(ask({"a"}));
  dead.reset();
  EXPECT_TRUE(eventually([&] { return one.hasReady(); }));
  EXPECT_TRUE(one.cancel(pending));
  bool abandoned = false;
  EXPECT_TRUE(other.hold("a", false, &abandoned));
  EXPECT_TRUE(abandoned);
}

TEST(Process, TellsOfADeathAlsoIfTheNextHolderDiesBeforeItsRecordIsWritten) {
  const Folder folder;
  static Other* watcher = nullptr;
  static bool abandoned = false;
  Other watches(folder.file());
  watcher = &watches;
  auto dead = std::make_optional<Other>(folder.file());
  EXPECT_TRUE(dead->hold("a"));
  dead.reset();
  abandoned = false;
  // If the process died here, the next holder would find this page.
  onSeam([](const char* point) {
    if (std::string_view(point) == "process: before it records a holder")
      abandoned = watcher->page().isAbandoned(watcher->byteOf("a"));
  });
  Other next(folder.file());
  EXPECT_TRUE(next.hold("a"));
  onSeam(nullptr);
  EXPECT_TRUE(abandoned);
}

namespace {

// Leaves records of so many keys that all places are taken. `locks`: also locks those that may be where the record of "a" may
// be, so that their holder lives as long as `by` does.
void fill(Other& by, bool shared, bool locks) {
  const auto sought = ProcessPage::bucketsOf(by.byteOf("a"), 1);
  for (int i = 0; i < 3 * ProcessPage::kPlacesPerFile; ++i) {
    const std::string key = "crowd " + std::to_string(i);
    const auto both = ProcessPage::bucketsOf(by.byteOf(key), 1);
    const bool isNear =
        std::find_first_of(both.begin(), both.end(), sought.begin(), sought.end()) != both.end();
    if (locks && isNear) {
      EXPECT_TRUE(by.lock(key, shared));
    }
    std::int32_t place = ProcessPage::kNoPlace;
    by.page().hold(by.byteOf(key), shared, {7, 0, key}, place);
  }
}

}  // namespace

TEST(Process, TellsOfADeathWhereTheDeadHaveFilledAllPlaces) {
  for (const bool shared : {true, false}) {
    const Folder folder;
    Member one(folder.file());
    auto dead = std::make_optional<Other>(folder.file());
    fill(*dead, shared, false);
    dead.reset();
    auto last = std::make_optional<Other>(folder.file());
    EXPECT_TRUE(last->hold("b"));
    last.reset();
    EXPECT_TRUE(one.attempt(ask({"b"})).abandoned);
  }
}

TEST(Process, TellsOfADeathWhereReadersHaveFilledAllPlaces) {
  const Folder folder;
  Member one(folder.file());
  Other readers(folder.file());
  fill(readers, true, true);
  auto dead = std::make_optional<Other>(folder.file());
  EXPECT_TRUE(dead->hold("a"));
  // No reader takes the room of an exclusive holder.
  fill(*dead, true, false);
  dead.reset();
  EXPECT_TRUE(one.attempt(ask({"a"})).abandoned);
}

// ── the file ──

namespace {

void overwrite(const std::string& path, std::streamoff at, const std::string& bytes) {
  std::fstream file(path);
  file.seekp(at);
  file << bytes;
}

std::string headerOf(const std::string& path) {
  std::string header(LockFileHeader::kBytes, '\0');
  std::ifstream(path).read(header.data(), static_cast<std::streamsize>(header.size()));
  return header;
}

std::uint64_t sizeOf(const std::string& path) {
  FileError error;
  return LockFile::open(path, FileAccess::kUser, error)->size();
}

}  // namespace

TEST(Process, WritesNoHeaderWhileAnotherProcessHasTheFileOpen) {
  const Folder folder;
  auto other = std::make_optional<Other>(folder.file());
  ASSERT_EQ(truncate(folder.file().c_str(), 0), 0);
  EXPECT_EQ(faultOf(folder.file()), FileFault::kDamaged);
  EXPECT_EQ(faultOf(folder.file(), {4, 0}), FileFault::kDamaged);
  EXPECT_EQ(sizeOf(folder.file()), 0u);
  overwrite(folder.file(), 0, std::string(4096, 'x'));
  EXPECT_EQ(faultOf(folder.file()), FileFault::kDamaged);
  other.reset();
  EXPECT_EQ(faultOf(folder.file()), FileFault::kForeign);
  ASSERT_EQ(truncate(folder.file().c_str(), 0), 0);
  Member made(folder.file(), 4);
  EXPECT_TRUE(made.mayHave("a"));
}

TEST(Process, RefusesALayoutThatIsNotThatOfLivingProcesses) {
  const Folder folder;
  const std::string path = folder.file();
  { const Member made(folder.file("another")); }
  auto other = std::make_optional<Other>(path);
  overwrite(path, 0, headerOf(folder.file("another")));
  EXPECT_EQ(faultOf(path), FileFault::kDamaged);
  other.reset();
  Member made(path);
  EXPECT_TRUE(made.mayHave("a"));
}

TEST(Process, RepairsADamagedHeaderOfWhichTokensWouldFall) {
  const Folder folder;
  std::uint64_t last = 0;
  {
    Member one(folder.file());
    last = one.attempt(ask({"a"})).token;
  }
  // The clock of tokens.
  overwrite(folder.file(), 1080, std::string(8, '\0'));
  Member one(folder.file());
  EXPECT_GT(one.attempt(ask({"a"})).token, last);
}

TEST(Process, ContinuesItsTokensAfterARestartOfTheMachine) {
  constexpr std::uint64_t kAhead = 3'600'000'000'000;
  const Folder folder;
  std::uint64_t last = 0;
  {
    Member one(folder.file());
    last = one.attempt(ask({"a"})).token;
  }
  // The header as it is after a restart, where the clock of tokens was ahead of the system's.
  std::string header = headerOf(folder.file());
  const std::size_t boot = header.find(bootId());
  ASSERT_NE(boot, std::string::npos);
  header[boot] = header[boot] == '0' ? '1' : '0';
  const auto numberAt = [&](std::size_t at) {
    std::uint64_t number = 0;
    std::memcpy(&number, &header[at], sizeof number);
    return number;
  };
  constexpr std::size_t kBase = 1080;
  constexpr std::size_t kChecksum = kBase + sizeof(std::uint64_t);
  const std::uint64_t base = numberAt(kBase) + kAhead;
  std::memcpy(&header[kBase], &base, sizeof base);
  const std::uint64_t checksum = hashBytes(header.data(), kChecksum);
  std::memcpy(&header[kChecksum], &checksum, sizeof checksum);
  overwrite(folder.file(), 0, header);
  Member one(folder.file());
  EXPECT_GT(one.attempt(ask({"a"})).token, last + kAhead);
  EXPECT_NE(headerOf(folder.file()), header);
}

TEST(Process, RestoresItsHeaderInAFileThatWasDamaged) {
  const Folder folder;
  Member one(folder.file(), 4);
  const std::string before = headerOf(folder.file());
  overwrite(folder.file(), 16, "12345678");
  EXPECT_TRUE(eventually([&] { return one.mayHave("a") && headerOf(folder.file()) == before; }));
  EXPECT_EQ(faultOf(folder.file(), {5, 0}), FileFault::kFiles);
}

TEST(Process, OpensWhileAnotherProcessTriesWhetherLocksWork) {
  const Folder folder;
  const int file = open(folder.file().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct flock all {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  all.l_start = static_cast<off_t>(kProbeBytes);
  all.l_len = static_cast<off_t>(kProbes);
  ASSERT_EQ(fcntl(file, F_OFD_SETLK, &all), 0);
  Member one(folder.file());
  EXPECT_TRUE(one.mayHave("a"));
  close(file);
}

TEST(Process, RefusesWhatIsNoLockFile) {
  const Folder folder;
  EXPECT_EQ(faultOf(folder.path()), FileFault::kKind);
  EXPECT_EQ(faultOf(folder.file("none/lock")), FileFault::kOpen);
  std::ofstream(folder.file("text")) << "something else";
  EXPECT_EQ(faultOf(folder.file("text")), FileFault::kForeign);
  std::ofstream(folder.file("long")) << std::string(1'000'000, 'x');
  EXPECT_EQ(faultOf(folder.file("long")), FileFault::kForeign);
  ASSERT_EQ(symlink(folder.file("text").c_str(), folder.file("link").c_str()), 0);
  EXPECT_EQ(faultOf(folder.file("link")), FileFault::kKind);
  { const Member made(folder.file()); }
  std::fstream file(folder.file());
  file.seekp(16);
  file.put(1);
  file.close();
  EXPECT_EQ(faultOf(folder.file()), FileFault::kVersion);
  ASSERT_EQ(truncate(folder.file().c_str(), 10), 0);
  EXPECT_EQ(faultOf(folder.file()), FileFault::kForeign);
  ASSERT_EQ(truncate(folder.file().c_str(), 0), 0);
  Member made(folder.file());
  EXPECT_TRUE(made.mayHave("a"));
}

TEST(Process, SpreadsItsKeysOverAsManyFilesAsTheFirstWanted) {
  const Folder folder;
  {
    Member one(folder.file(), 16);
    const Member same(folder.file(), 16);
    Other other(folder.file());
    EXPECT_EQ(other.page().header().files(), 16u);
    EXPECT_EQ(access(folder.file("lock.15").c_str(), F_OK), 0);
    EXPECT_NE(access(folder.file("lock.16").c_str(), F_OK), 0);
    for (int i = 0; i < 100; ++i) {
      const std::string key = "key " + std::to_string(i);
      const std::uint32_t held = one.hold(key);
      EXPECT_FALSE(other.lock(key));
      one.release(held);
      EXPECT_TRUE(other.lock(key));
      EXPECT_FALSE(one.mayHave(key));
    }
    EXPECT_EQ(faultOf(folder.file(), {4, 0}), FileFault::kFiles);
  }
  EXPECT_EQ(faultOf(folder.file(), {4, 0}), FileFault::kFiles);
  Member one(folder.file());
  EXPECT_TRUE(one.mayHave("a"));
  ASSERT_EQ(unlink(folder.file("lock.7").c_str()), 0);
  EXPECT_TRUE(awaitReplaced(one));
}

TEST(Process, SaysThatTheFileWasDeletedOrReplaced) {
  const Folder folder;
  Member one(folder.file());
  const std::uint32_t held = one.hold("a");
  ASSERT_EQ(unlink(folder.file().c_str()), 0);
  EXPECT_EQ(one.attempt(ask({"b"})).error.fault, FileFault::kReplaced);
  one.release(held);
  Member two(folder.file());
  EXPECT_TRUE(two.mayHave("a"));
  // The path was looked at just now.
  ASSERT_EQ(rename(folder.file().c_str(), folder.file("away").c_str()), 0);
  EXPECT_EQ(two.attempt(ask({"a"})).error.fault, FileFault::kReplaced);
  Member three(folder.file());
  EXPECT_TRUE(three.mayHave("a"));
}

TEST(Process, TellsWaitersThatTheFileWasDeleted) {
  const Folder folder;
  const UsualSlices usual;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.hold("a"));
  one.pend(ask({"a"}));
  BlockedMember blocked(two, ask({"a"}));
  EXPECT_TRUE(awaitWaits(one, 2));
  ASSERT_EQ(unlink(folder.file().c_str()), 0);
  EXPECT_EQ(blocked.join().error.fault, FileFault::kReplaced);
  const auto news = one.awaitNews();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->status, Result::kFailed);
}

TEST(Process, ExcludesWhateverIsInThePage) {
  const Folder folder;
  Random random = seeded("rubbish");
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  for (int round = 0; round < 20; ++round) {
    std::string rubbish(static_cast<std::size_t>(other.file().size()) - 4096, '\0');
    for (char& byte : rubbish) byte = static_cast<char>(random());
    std::fstream file(folder.file());
    file.seekp(4096);
    file << rubbish;
    file.close();
    ProcessOutcome outcome = one.sync(ask({"a"}));
    ASSERT_EQ(outcome.status, Result::kGranted);
    EXPECT_FALSE(two.mayHave("a"));
    EXPECT_FALSE(other.lock("a"));
    const std::uint32_t pending = two.pend(ask({"a"}));
    one.release(outcome.id);
    ASSERT_TRUE(two.awaitNews());
    EXPECT_FALSE(one.mayHave("a"));
    two.release(pending);
  }
}

TEST(Process, RepairsAFileThatWasCut) {
  const Folder folder;
  Member one(folder.file());
  Other other(folder.file());
  const std::uint32_t held = one.hold("a");
  sleepFor(2);
  ASSERT_EQ(truncate(folder.file().c_str(), 4096), 0);
  one.release(held);
  EXPECT_TRUE(one.mayHave("a"));
  EXPECT_TRUE(other.lock("a"));
}

TEST(Process, SurvivesATruncationShortlyBeforeItTakesAKey) {
  // Whether another process has the turn. If so, the page is also read before the byte is locked.
  for (const bool hasTurn : {false, true}) {
    // In memory, because a disk may need milliseconds for a truncation.
    const Folder folder(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    Member one(folder.file());
    Other other(folder.file());
    // Only fast rounds count: in these, the check of the file that the first acquisition made would still be valid for
    // the second one.
    int rounds = 0;
    EXPECT_TRUE(eventually([&] {
      if (hasTurn) other.enrol("a");
      if (hasTurn) waitUntilNobodyMayPass();
      const Nanoseconds start = now();
      one.release(one.hold("a"));
      EXPECT_EQ(truncate(folder.file().c_str(), 0), 0);
      const bool isFast = now() - start < kMillisecond / 2;
      EXPECT_TRUE(one.mayHave("a"));
      rounds += isFast ? 1 : 0;
      return rounds == 10;
    }));
    EXPECT_TRUE(other.lock("a"));
    EXPECT_FALSE(one.mayHave("a"));
  }
}

TEST(Process, RefusesAFileThatOthersMayWrite) {
  const Folder folder;
  { const Member maker(folder.file()); }
  for (const mode_t mode : {0620U, 0602U, 0666U}) {
    ASSERT_EQ(chmod(folder.file().c_str(), mode), 0);
    FileError error;
    EXPECT_FALSE(ProcessFile::open(folder.file(), "", {}, FileAccess::kUser, error));
    EXPECT_EQ(error.fault, FileFault::kUnsafe);
    EXPECT_EQ(error.owner, geteuid());
    EXPECT_EQ(error.mode, mode);
  }
}

#if defined(__linux__)
namespace {

std::atomic<bool> creatorContinues{false};

}  // namespace

TEST(Process, OpensAFileThatAnotherUserIsCreatingForAllUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be a second user";
  const Folder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  const mode_t umaskBefore = umask(022);
  creatorContinues.store(false);
  onSeam([](const char* point) {
    const std::string_view passed(point);
    // The creator has the file, and the other user is refused before the file has its permissions.
    if (passed == "file: while another process creates it") creatorContinues.store(true);
    if (passed == "file: before it has its permissions")
      while (!creatorContinues.load()) sleepFor(1);
  });
  FileError ofCreator;
  std::unique_ptr<LockFile> created;
  std::thread creator([&] { created = LockFile::open(folder.file(), FileAccess::kAll, ofCreator); });
  EXPECT_TRUE(eventually([&] { return access(folder.file().c_str(), F_OK) == 0; }));
  FileError ofOther;
  std::unique_ptr<LockFile> opened;
  std::thread other([&] {
    // The system call changes the user of this thread alone.
    constexpr long kUser = 54'321;
    EXPECT_EQ(syscall(SYS_setresuid, kUser, kUser, kUser), 0);
    opened = LockFile::open(folder.file(), FileAccess::kAll, ofOther);
  });
  other.join();
  creatorContinues.store(true);
  creator.join();
  onSeam(nullptr);
  umask(umaskBefore);
  EXPECT_TRUE(created) << ofCreator.number;
  EXPECT_TRUE(opened) << ofOther.number;
}
#endif

TEST(Process, WorksWithoutASlot) {
  const Folder folder;
  // The event loop may be granted the key first, and does not turn before the blocked thread is granted it.
  const UsualSlices usual;
  { const Member maker(folder.file()); }
  FileError error;
  const std::unique_ptr<LockFile> all = LockFile::open(folder.file(), FileAccess::kUser, error);
  int number = 0;
  for (int slot = 0; slot < kSlots; ++slot)
    all->lock(kLifeBytes + static_cast<std::uint64_t>(slot), false, number);
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  EXPECT_EQ(other.page().slot(), kNoSlot);
  EXPECT_TRUE(other.hold("a"));
  BlockedMember blocked(one, ask({"a"}));
  const std::uint32_t pending = two.pend(ask({"a"}));
  EXPECT_TRUE(awaitWaits(one, 2));
  other.free("a");
  EXPECT_EQ(blocked.join().status, Result::kGranted);
  one.release(blocked.join().id);
  ASSERT_TRUE(two.awaitNews());
  two.release(pending);
  EXPECT_TRUE(other.hold("a"));
}

TEST(Process, GetsASlotAsSoonAsOneIsFree) {
  const Folder folder;
  const UsualSlices usual;
  { const Member maker(folder.file()); }
  FileError error;
  const std::unique_ptr<LockFile> all = LockFile::open(folder.file(), FileAccess::kUser, error);
  int number = 0;
  for (int slot = 0; slot < kSlots; ++slot)
    all->lock(kLifeBytes + static_cast<std::uint64_t>(slot), false, number);
  Member one(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.hold("a"));
  one.pend(ask({"a"}));
  EXPECT_FALSE(other.page().mayBeAwaited(other.byteOf("a")));
  constexpr std::uint64_t kFreed = kLifeBytes + 5;
  EXPECT_FALSE(all->lockedElsewhere(kFreed));
  all->unlock(kFreed);
  EXPECT_TRUE(eventually([&] { return all->lockedElsewhere(kFreed); }));
  // From now on others know that it waits, and wake it.
  EXPECT_TRUE(eventually([&] { return other.page().mayBeAwaited(other.byteOf("a")); }));
  other.free("a");
  EXPECT_TRUE(one.awaitNews());
}

TEST(Process, ShowsWhoHoldsAndWaits) {
  const Folder folder;
  Member one(folder.file());
  Other other(folder.file());
  one.hold("mine");
  EXPECT_TRUE(other.hold("theirs"));
  one.pend(ask({"theirs"}));
  other.enrol("mine");
  FileError error;
  const auto seen = one.inspect(error);
  ASSERT_EQ(seen.size(), 4u);
  for (const auto& use : seen) {
    EXPECT_EQ(use.key, use.here == use.waits ? "theirs" : "mine");
    EXPECT_EQ(use.pid, processId());
    EXPECT_EQ(use.title, use.here ? "" : "other");
  }
}

// ── permits ──

namespace {

// With this many permits of each key.
class LimitedMember : public Member {
 public:
  LimitedMember(const std::string& path, std::uint32_t limit) : Member(path, 0, limit) {}
};

}  // namespace

TEST(ProcessPermits, HaveAsManyHoldersAsTheFileSays) {
  const Folder folder;
  LimitedMember one(folder.file(), 3);
  LimitedMember two(folder.file(), 3);
  Other other(folder.file());
  EXPECT_TRUE(other.holdPermit("a", 1));
  const std::uint32_t held = one.hold("a");
  two.hold("a");
  EXPECT_FALSE(one.mayHave("a"));
  EXPECT_FALSE(two.mayHave("a"));
  for (std::uint32_t permit = 0; permit < 3; ++permit)
    EXPECT_FALSE(other.lock("a", false, permit) && permit != 1);
  EXPECT_TRUE(one.mayHave("b"));
  EXPECT_EQ(one.attempt(ask({"a", "b"})).status, Result::kTimedOut);
  one.release(held);
  EXPECT_TRUE(two.mayHave("a"));
  other.freePermit("a", 1);
  one.hold("a");
  one.hold("a");
  EXPECT_FALSE(one.mayHave("a"));
}

TEST(ProcessPermits, HaveTheLimitThatTheCreatorOfTheFileChose) {
  const Folder folder;
  {
    const LimitedMember one(folder.file(), 3);
    for (const std::uint32_t limit : {1U, 2U, 4U}) {
      EXPECT_EQ(faultOf(folder.file(), {0, limit}), FileFault::kLimit);
      FileError error;
      const auto file = LockFile::open(folder.file(), FileAccess::kUser, error);
      ProcessPage page;
      EXPECT_FALSE(page.open(*file, folder.file(), "", {0, limit}, error));
      EXPECT_EQ(error.fault, FileFault::kLimit);
      EXPECT_EQ(error.number, 3);
    }
  }
  // Also while no process has it open.
  EXPECT_EQ(faultOf(folder.file(), {0, 4}), FileFault::kLimit);
  EXPECT_EQ(faultOf(folder.file(), {0, 1}), FileFault::kLimit);
}

// The memory of the closed file, and the table in it, are still in use.
TEST(ProcessPermits, HaveTheLimitOfANewFileAtTheSamePath) {
  const Folder folder;
  LimitedMember one(folder.file(), 3);
  FileError error;
  const auto closed = ProcessFile::open(folder.file(), "", {0, 3}, FileAccess::kUser, error);
  one.end();
  closed->close();
  ASSERT_EQ(std::remove(folder.file().c_str()), 0);
  LimitedMember two(folder.file(), 2);
  two.hold("a");
  two.hold("a");
  EXPECT_FALSE(two.mayHave("a"));
}

TEST(ProcessPermits, TellTheNextHolderOfEachDeath) {
  const Folder folder;
  auto dead = std::make_optional<LimitedMember>(folder.file(), 4);
  LimitedMember one(folder.file(), 4);
  Other other(folder.file());
  auto killed = std::make_optional<Other>(folder.file());
  EXPECT_TRUE(other.holdPermit("a", 0));
  EXPECT_TRUE(killed->holdPermit("a", 2));
  EXPECT_FALSE(one.attempt(ask({"a"})).abandoned);
  killed.reset();
  other.freePermit("a", 0);
  const ProcessOutcome next = one.attempt(ask({"a"}));
  EXPECT_TRUE(next.abandoned);
  one.release(next.id);
  EXPECT_FALSE(one.attempt(ask({"a"})).abandoned);
  // A thread of the same process, with two permits.
  dead->hold("b");
  dead->hold("b");
  dead.reset();
  std::vector<bool> told;
  for (int i = 0; i < 4; ++i) told.push_back(one.attempt(ask({"b"})).abandoned);
  EXPECT_EQ(told, (std::vector<bool>{true, true, false, false}));
}

TEST(ProcessPermits, GoToTheNextProcessIfSeveralAreFreeAtOnce) {
  const Folder folder;
  LimitedMember one(folder.file(), 2);
  Other holder(folder.file());
  Other next(folder.file());
  EXPECT_TRUE(holder.holdPermit("a", 0));
  EXPECT_TRUE(holder.holdPermit("a", 1));
  one.pend(ask({"a"}));
  EXPECT_TRUE(eventually([&] { return holder.page().mayBeAwaited(holder.byteOf("a")); }));
  next.enrol("a");
  WakeWord word;
  word.use(next.page().wakeWord());
  const std::uint32_t wakes = next.page().wakeWord()->load();
  for (const std::uint32_t permit : {0, 1}) holder.freePermit("a", permit);
  holder.page().wakeNext(holder.byteOf("a"));
  ASSERT_TRUE(one.awaitNews());
  EXPECT_EQ(next.page().wakeWord()->load() > wakes, word.isReachable());
}

TEST(ProcessPermits, GoToAWaiterOfTheSameProcessThatHasLeftTheKeyToOthers) {
  for (const bool blocks : {false, true}) {
    const Folder folder;
    const NoSlices noSlices;
    LimitedMember one(folder.file(), 2);
    LimitedMember two(folder.file(), 2);
    Other other(folder.file());
    EXPECT_TRUE(other.holdPermit("a", 0));
    const std::uint32_t held = one.hold("a");
    std::optional<BlockedMember> blocked;
    if (blocks)
      blocked.emplace(two, ask({"a"}));
    else
      two.pend(ask({"a"}));
    EXPECT_TRUE(eventually([&] { return other.page().mayBeAwaited(other.byteOf("a")); }));
    one.release(held);
    if (blocks) {
      EXPECT_TRUE(eventually([&] { return blocked->decided(); }));
      wakeAll(other);
      EXPECT_EQ(blocked->join().status, Result::kGranted);
    } else {
      EXPECT_TRUE(two.awaitNews());
    }
    EXPECT_FALSE(one.mayHave("a"));
  }
}

TEST(ProcessPermits, AreWaitedForInThePageOnlyAsLongAsAThreadWaits) {
  const Folder folder;
  LimitedMember one(folder.file(), 2);
  LimitedMember two(folder.file(), 2);
  Other other(folder.file());
  EXPECT_TRUE(other.holdPermit("a", 0));
  one.hold("a");
  const std::uint32_t pending = two.pend(ask({"a"}));
  const auto isAwaited = [&] { return other.page().mayBeAwaited(other.byteOf("a")); };
  EXPECT_TRUE(eventually(isAwaited));
  EXPECT_TRUE(two.cancel(pending));
  EXPECT_FALSE(isAwaited()) << "though its process has a permit";
}

namespace {

// Tests that one of two free permits is kept for a process. `counts`: see keepAKeyAfterAHandOver().
void keepOnePermit(bool& counts) {
  const Folder folder;
  LimitedMember one(folder.file(), 3);
  Other other(folder.file());
  std::vector<std::uint32_t> held;
  for (int i = 0; i < 3; ++i) held.push_back(one.hold("a"));
  other.enrol("a");
  waitUntilNobodyMayPass();
  const Nanoseconds freed = now();
  one.release(held[0]);
  const bool gotTheOnlyOne = one.mayHave("a");
  one.release(held[1]);
  const bool gotOneOfTwo = one.attempt(ask({"a"})).status == Result::kGranted;
  const bool gotTheLast = one.mayHave("a");
  counts = now() - freed < kTurnFor;
  if (!counts) return;
  EXPECT_FALSE(gotTheOnlyOne);
  EXPECT_TRUE(gotOneOfTwo);
  EXPECT_FALSE(gotTheLast);
}

}  // namespace

TEST(ProcessPermits, AreKeptForAsManyProcessesAsHaveATurn) {
  int attempts = 0;
  for (bool counts = false; !counts; ++attempts) {
    ASSERT_LT(attempts, 1000);
    ASSERT_NO_FATAL_FAILURE(keepOnePermit(counts));
  }
}

TEST(ProcessPermits, AreRefusedOnlyInACycleOfThreadsThatHaveAllOfThem) {
  const Folder folder;
  const UsualSlices usual;
  LimitedMember one(folder.file(), 2);
  Other other(folder.file());
  EXPECT_TRUE(other.holdPermit("a", 0));
  const std::uint32_t held = one.hold("a");
  // The other process may release its permit.
  EXPECT_EQ(one.sync(ask({"a"}, 100)).status, Result::kTimedOut);
  one.release(held);
  one.hold("b");
  one.hold("b");
  EXPECT_EQ(one.sync(ask({"b"}, kStuck)).status, Result::kDeadlock);
}

namespace {

// Random acquisitions by threads of this process and by another process. Some holders die, some waiters give up.
struct Stress {
  std::uint64_t seed;
  std::uint32_t threads;
  std::uint32_t keys;
  std::uint32_t limit;
  // Called by a holder of the key.
  std::function<void(std::uint32_t key, bool shared, std::uint64_t token, Random& random)> useHere;
  std::function<void(std::uint32_t key, Random& random)> useElsewhere;

  void run() const {
    const Folder folder;
    // Creates the file: another process takes any limit.
    const Member creator(folder.file(), 0, limit);
    std::vector<std::thread> all;
    for (std::uint64_t i = 0; i < threads; ++i) {
      all.emplace_back([&, i] {
        Random random(seed + i);
        for (int life = 0; life < 4; ++life) live(folder.file(), random);
      });
    }
    std::atomic<bool> done{false};
    std::thread elsewhere([&] {
      Random random(seed + 99);
      while (!done.load()) liveElsewhere(folder.file(), random);
    });
    for (std::thread& thread : all) thread.join();
    done.store(true);
    elsewhere.join();
  }

 private:
  static constexpr int kTimes = 150;

  void live(const std::string& path, Random& random) const {
    Member member(path, 0, limit);
    for (int i = 0; i < kTimes; ++i) {
      const std::uint32_t first = below(random, keys);
      std::vector<std::uint32_t> wanted{first};
      if (oneIn(random, 4)) wanted.push_back((first + 1) % keys);
      const bool shared = limit == 1 && oneIn(random, 4);
      const std::optional<ProcessOutcome> outcome = acquire(member, wanted, shared, random);
      if (!outcome || outcome->status != Result::kGranted) continue;
      for (const std::uint32_t key : wanted) useHere(key, shared, outcome->token, random);
      // The last hold is still held when the thread ends.
      if (i < kTimes - 1) member.release(outcome->id);
    }
  }

  // nullopt: the acquisition was cancelled.
  static std::optional<ProcessOutcome> acquire(Member& member, const std::vector<std::uint32_t>& wanted,
                                               bool shared, Random& random) {
    std::vector<std::string> names;
    for (const std::uint32_t key : wanted) names.push_back(std::to_string(key));
    if (oneIn(random, 2)) return member.sync(ask(names, oneIn(random, 4) ? 0.5 : kStuck, shared));
    const ProcessOutcome outcome = member.async(ask(names, kForever, shared));
    if (outcome.status != Result::kPending) return outcome;
    if (oneIn(random, 8) && member.cancel(outcome.id)) return std::nullopt;
    if (oneIn(random, 16)) {
      const ProcessOutcome inner = member.sync(ask({"other"}));
      if (inner.status == Result::kGranted) member.release(inner.id);
    }
    const auto news = member.awaitNews();
    EXPECT_TRUE(news);
    return news;
  }

  // Another process that holds, waits its turn, and dies.
  void liveElsewhere(const std::string& path, Random& random) const {
    Other other(path);
    for (int i = 0; i < 10; ++i) {
      const std::uint32_t key = below(random, keys);
      const std::uint32_t permit = below(random, limit);
      const std::string name = std::to_string(key);
      other.enrol(name);
      if (other.holdPermit(name, permit)) {
        other.page().takeTurn(other.byteOf(name));
        useElsewhere(key, random);
        if (i < 9) {
          other.freePermit(name, permit);
          other.page().wakeNext(other.byteOf(name));
        }
      }
      other.withdraw(name);
    }
  }
};

}  // namespace

TEST(ProcessPermits, NeverHaveMoreHoldersThanTheLimit) {
  constexpr std::uint32_t kKeyCount = 2;
  constexpr std::uint32_t kLimit = 3;
  std::array<std::atomic<std::uint32_t>, kKeyCount> holders{};
  const auto use = [&](std::uint32_t key, Random& random) {
    EXPECT_LE(++holders[key], kLimit);
    if (oneIn(random, 8)) std::this_thread::yield();
    --holders[key];
  };
  Stress{.seed = seeded("permits of processes")(),
         .threads = 5,
         .keys = kKeyCount,
         .limit = kLimit,
         .useHere = [&](std::uint32_t key, bool, std::uint64_t, Random& random) { use(key, random); },
         .useElsewhere = use}
      .run();
}

TEST(Process, SurvivesManyThreadsAndProcesses) {
  constexpr std::uint32_t kKeyCount = 3;
  // Not atomic on purpose: the sanitizer sees when two hold a key.
  std::array<std::uint64_t, kKeyCount> values{};
  std::array<std::uint64_t, kKeyCount> tokens{};
  const auto useHere = [&](std::uint32_t key, bool shared, std::uint64_t token, Random&) {
    EXPECT_GT(token, tokens[key]);
    if (shared) return;
    ++values[key];
    tokens[key] = token;
  };
  Stress{.seed = seeded("process stress")(),
         .threads = 4,
         .keys = kKeyCount,
         .limit = 1,
         .useHere = useHere,
         .useElsewhere = [](std::uint32_t, Random&) {}}
      .run();
}

}  // namespace stripelock::test
