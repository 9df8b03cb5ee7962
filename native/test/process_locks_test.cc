// For the locks of open files.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>

#include "core/hash.h"
#include "core/process_locks.h"
#include "core/process_page.h"
#include "test/support.h"

// A second open file in this process is to the kernel what another process is, so tests need only this one.

namespace stripelock::test {

namespace {

using Result = ProcessOutcome::Status;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/stripelock-test-XXXXXX";
    path_ = mkdtemp(name);
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

// A thread of this process with the file open.
class Member {
 public:
  explicit Member(const std::string& path, std::uint32_t files = 0)
      : thread_(std::make_unique<ProcessThread>(environment_.participant())) {
    FileError error;
    file_ = thread_->open(path, "member", files, error);
    EXPECT_EQ(error.fault, FileFault::kNone);
  }
  ~Member() { end(); }

  void end() {
    if (!thread_) return;
    thread_.reset();
    environment_.end();
  }
  Environment& environment() { return environment_; }
  ProcessThread& thread() { return *thread_; }
  int file() const { return file_; }

  ProcessOutcome attempt(const ProcessRequest& request) { return thread_->attempt(file_, request); }
  ProcessOutcome sync(const ProcessRequest& request) { return thread_->acquireSync(file_, request, {}); }
  ProcessOutcome async(const ProcessRequest& request) { return thread_->acquireAsync(file_, request); }
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
  void release(std::uint32_t id) { EXPECT_TRUE(thread_->release(id)); }
  std::optional<ProcessOutcome> take() {
    // As the event loop does first: from here on it is woken again.
    static_cast<void>(environment_.participant().takeReady());
    ProcessOutcome outcome;
    return thread_->take(&outcome, 1) == 1 ? std::optional(outcome) : std::nullopt;
  }
  // Waits until the event loop is woken for something.
  std::optional<ProcessOutcome> awaitNews() {
    for (const Nanoseconds end = now() + static_cast<Nanoseconds>(kStuck * 1e6); now() < end;) {
      if (const auto news = take()) return news;
      environment_.awaitWake(kStuck);
    }
    return std::nullopt;
  }

 private:
  Environment environment_;
  std::unique_ptr<ProcessThread> thread_;
  int file_ = -1;
};

// Another process, as the kernel and the page see it.
class Other {
 public:
  explicit Other(const std::string& path) {
    FileError error;
    file_ = LockFile::open(path, error);
    EXPECT_TRUE(file_ && page_.open(*file_, path, "other", 0, error)) << static_cast<int>(error.fault);
  }

  LockFile& file() { return *file_; }
  ProcessPage& page() { return page_; }
  std::uint64_t byteOf(const std::string& key) const { return page_.byteOf(key); }
  bool lock(const std::string& key, bool shared = false) {
    int number = 0;
    return file_->lock(byteOf(key), shared, number) == LockFile::Answer::kTaken;
  }
  // Whether it got the key; `abandoned`: what it was told.
  bool hold(const std::string& key, bool shared = false, bool* abandoned = nullptr) {
    if (!lock(key, shared)) return false;
    const bool told = page_.hold(byteOf(key), shared, {7, 0, key}, place_);
    if (abandoned) *abandoned = told;
    return true;
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
void waitUntilNobodyMayPass() { sleepFor(2 * static_cast<double>(kBargeFor) / 1e6); }

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

// Whether so many acquisitions of this process wait before long, as this one sees it.
bool awaitWaits(Member& member, int count) {
  return eventually([&] {
    FileError error;
    const auto seen = member.thread().inspect(member.file(), error);
    return count <=
           std::count_if(seen.begin(), seen.end(), [](const auto& use) { return use.here && use.waits; });
  });
}

// Whether it notices before long that somebody deleted or replaced the file.
bool awaitReplaced(Member& member) {
  return eventually([&] {
    const ProcessOutcome outcome = member.attempt(ask({"b"}));
    if (outcome.status == Result::kGranted) member.release(outcome.id);
    return outcome.error.fault == FileFault::kReplaced;
  });
}

// `count` keys of a file in the order in which acquisitions take them.
std::vector<std::string> keysInOrder(const std::string& path, std::size_t count) {
  const Other other(path);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back("key " + std::to_string(i));
  std::sort(keys.begin(), keys.end(),
            [&](const std::string& a, const std::string& b) { return other.byteOf(a) > other.byteOf(b); });
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

FileFault faultOf(const std::string& path, std::uint32_t files = 0) {
  Environment environment;
  ProcessThread thread(environment.participant());
  FileError error;
  EXPECT_EQ(thread.open(path, "", files, error), -1);
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
  const std::uint64_t byte = other.byteOf("a");
  const std::uint64_t ahead = other.page().issueToken(&byte, 1, last + 3'600'000'000'000);
  Member member(folder.file());
  EXPECT_GT(member.attempt(ask({"a"})).token, ahead);
}

// ── waiting ──

TEST(Process, WaitsForAnotherThread) {
  const Folder folder;
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
    if (std::string_view(point) == "process: before it enqueues") other->free("a");
  });
  const ProcessOutcome outcome = one.async(ask({"a"}));
  onSeam(nullptr);
  EXPECT_EQ(outcome.status, Result::kGranted);
}

TEST(Process, DoesNotMissAReleaseOfALaterKeyOfAList) {
  const Folder folder;
  const NoSlices noSlices;
  static Other* other = nullptr;
  static std::string last;
  const std::vector<std::string> keys = keysInOrder(folder.file(), 2);
  Member one(folder.file());
  Member two(folder.file());
  Other theOther(folder.file());
  other = &theOther;
  last = keys[1];
  EXPECT_TRUE(other->hold(last));
  const std::uint32_t held = one.hold(keys[0]);
  const std::uint32_t pending = two.pend(ask(keys));
  onSeam([](const char* point) {
    // It has the first key, and was refused the other one.
    if (std::string_view(point) == "process: before it enqueues") other->free(last);
  });
  one.release(held);
  onSeam(nullptr);
  const auto news = two.take();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->id, pending);
}

TEST(Process, WatchesALaterKeyOfAListThatWaitedBehindABlockedThread) {
  const Folder folder;
  const UsualSlices usual;
  const std::vector<std::string> keys = keysInOrder(folder.file(), 2);
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.hold(keys[0]));
  EXPECT_TRUE(other.hold(keys[1]));
  BlockedMember first(one, ask({keys[0]}));
  EXPECT_TRUE(awaitWaits(two, 1));
  const std::uint32_t pending = two.pend(ask(keys));
  // Meanwhile the blocked thread alone looks at the key. The file's thread ends after 200 ms if it has nothing to watch.
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  other.free(keys[0]);
  one.release(first.join().id);
  EXPECT_FALSE(two.take());
  other.free(keys[1]);
  const auto news = two.awaitNews();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->id, pending);
}

TEST(Process, WakesTheEventLoopOfTheThreadThatReleases) {
  const Folder folder;
  Member one(folder.file());
  const std::uint32_t held = one.hold("a");
  one.pend(ask({"a"}));
  EXPECT_EQ(one.environment().wakes(), 0);
  // Its script may be ended now, before it asks for news.
  one.release(held);
  EXPECT_TRUE(one.environment().awaitWake(kStuck));
  EXPECT_TRUE(one.take());
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
  EXPECT_EQ(two.thread().acquireSync(two.file(), ask({"b"}), interrupt).status, Result::kInterrupted);
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
  EXPECT_TRUE(two.thread().cancel(pending));
  EXPECT_FALSE(two.thread().cancel(pending));
  one.release(held);
  EXPECT_FALSE(two.take());
  EXPECT_TRUE(one.mayHave("a"));
  EXPECT_EQ(two.thread().pending(), 0u);
}

TEST(Process, EndsWhenItsHostWants) {
  const Folder folder;
  const UsualSlices usual;
  Member one(folder.file());
  Member two(folder.file());
  one.hold("a");
  const Interrupt interrupt{.requested = [](void*) { return true; }};
  EXPECT_EQ(two.thread().acquireSync(two.file(), ask({"a"}), interrupt).status, Result::kInterrupted);
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
    EXPECT_EQ(two.thread().acquireSync(two.file(), ask({"a"}), interrupt).status, Result::kInterrupted);
    EXPECT_EQ(asked, 2);
    EXPECT_TRUE(one.mayHave("a"));
  }
  const NoSlices noSlices;
  held = one.hold("a");
  ProcessOutcome outcome;
  std::thread blocked([&] {
    outcome = two.thread().acquireSync(two.file(), ask({"a"}), {.ending = [](void*) { return true; }});
  });
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
  // Nobody is woken.
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
  const bool mayKeep = now() - start < kBargeFor;
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
  reader.enrol("a", true);
  // In the portable build no process can wake another one.
  Bell bell;
  bell.hang(writer.page().bell());
  // A stopped test does not count: the writer must have tried a short time ago.
  EXPECT_TRUE(eventually([&] {
    writer.withdraw("a");
    writer.enrol("a");
    const std::uint32_t heardByReader = reader.page().bell()->load();
    const std::uint32_t heardByWriter = writer.page().bell()->load();
    if (one.mayHave("a", true)) return false;
    EXPECT_EQ(reader.page().bell()->load(), heardByReader);
    EXPECT_EQ(writer.page().bell()->load() > heardByWriter, bell.isReachable());
    return true;
  }));
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
  Bell bell;
  bell.hang(writer.page().bell());
  const auto rings = [](Other& of) { return of.page().bell()->load(); };
  const std::uint32_t before[] = {rings(one), rings(two), rings(writer)};
  releases.page().wakeNext(releases.byteOf("a"));
  EXPECT_EQ(rings(one) > before[0], bell.isReachable());
  EXPECT_EQ(rings(two) > before[1], bell.isReachable());
  EXPECT_EQ(rings(writer), before[2]);
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

TEST(Process, TakesAGrantBackForAnotherProcess) {
  const Folder folder;
  const UsualSlices usual;
  Member one(folder.file());
  Member two(folder.file());
  Other other(folder.file());
  const std::uint32_t held = one.hold("a");
  const std::uint32_t pending = two.pend(ask({"a"}));
  one.release(held);
  EXPECT_FALSE(other.lock("a"));
  other.enrol("a");
  // The event loop of the second does not look.
  EXPECT_TRUE(eventually([&] { return other.lock("a"); }));
  EXPECT_FALSE(two.take());
  other.withdraw("a");
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

TEST(Process, TakesAnIdleGrantBackAtTheDeadlineOfAnEventLoop) {
  const Folder folder;
  const NoSlices noSlices;
  const Patience patience(kAnHour);
  Member one(folder.file());
  Member two(folder.file());
  Member three(folder.file());
  const std::uint32_t held = one.hold("a");
  two.pend(ask({"a"}));
  const std::uint32_t pending = three.pend(ask({"a"}));
  one.release(held);
  EXPECT_FALSE(three.take());
  EXPECT_FALSE(three.thread().cancel(pending, true));
  const auto news = three.take();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->id, pending);
  EXPECT_EQ(news->status, Result::kGranted);
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

TEST(Process, KeepsNothingForAThreadThatDoesNotComeBackForAGrant) {
  const Folder folder;
  const NoSlices noSlices;
  const std::vector<std::string> keys = keysInOrder(folder.file(), 2);
  Member one(folder.file());
  Member two(folder.file());
  Member three(folder.file());
  const std::uint32_t held = three.hold(keys[1]);
  const std::uint32_t before = two.pend(ask(keys));
  EXPECT_FALSE(one.mayHave(keys[0]));
  ASSERT_NO_FATAL_FAILURE(revokeGrant(two, one));
  EXPECT_TRUE(one.mayHave(keys[0]));
  // Nor for what it asks for before it comes back.
  const std::uint32_t after = two.pend(ask(keys));
  EXPECT_TRUE(one.mayHave(keys[0]));
  three.release(held);
  EXPECT_TRUE(one.mayHave(keys[1]));
  EXPECT_EQ(two.thread().pending(), 3u);
  const auto first = two.awaitNews();
  const auto second = two.awaitNews();
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->id == before || second->id == before);
  two.release(before);
  const auto third = two.awaitNews();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->id, after);
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
  BlockedMember blocked(two, ask({"a"}));
  EXPECT_TRUE(awaitWaits(one, 1));
  const ProcessOutcome refused = one.sync(ask({"b"}));
  EXPECT_EQ(refused.status, Result::kDeadlock);
  ASSERT_EQ(refused.cycle.size(), 2u);
  EXPECT_EQ(refused.cycle[0].threadId, one.environment().threadId());
  EXPECT_EQ(refused.cycle[0].key, "b");
  EXPECT_EQ(refused.cycle[1].threadId, two.environment().threadId());
  EXPECT_EQ(refused.cycle[1].key, "a");
  one.release(a);
  EXPECT_EQ(blocked.join().status, Result::kGranted);
  two.release(b);
}

TEST(Process, RefusesACycleThroughAListThatWaitsForever) {
  const Folder folder;
  const UsualSlices usual;
  const std::vector<std::string> keys = keysInOrder(folder.file(), 2);
  Member one(folder.file());
  Member two(folder.file());
  two.hold(keys[1]);
  one.pend(ask(keys));
  const ProcessOutcome refused = two.sync(ask({keys[0]}));
  EXPECT_EQ(refused.status, Result::kDeadlock);
  ASSERT_EQ(refused.cycle.size(), 2u);
  EXPECT_EQ(refused.cycle[1].key, keys[1]);
}

TEST(Process, DoesNotRefuseToWaitForAListThatMayGiveUp) {
  const Folder folder;
  const UsualSlices usual;
  const std::vector<std::string> keys = keysInOrder(folder.file(), 2);
  Member one(folder.file());
  Member two(folder.file());
  two.hold(keys[1]);
  const std::uint32_t pending = one.pend(askUntil(keys));
  BlockedMember blocked(two, ask({keys[0]}));
  EXPECT_TRUE(awaitWaits(one, 2));
  EXPECT_TRUE(one.thread().cancel(pending));
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
  EXPECT_TRUE(four.thread().cancel(writer));
  EXPECT_EQ(blocked.join().status, Result::kGranted);
  two.release(b);
  EXPECT_EQ(reader.join().status, Result::kGranted);
  four.release(c);
  EXPECT_EQ(passed.join().status, Result::kGranted);
}

TEST(Process, SearchesForDeadlocksInAsManyStepsAsAcquisitionsWait) {
  const Folder folder;
  constexpr int kWaiters = 2000;
  static std::atomic<int> steps{0};
  Member one(folder.file());
  Member two(folder.file());
  Member three(folder.file());
  one.hold("a");
  for (int i = 0; i < kWaiters; ++i) two.pend(ask({"a"}, kForever, i % 2 == 0));
  steps.store(0);
  onSeam([](const char* point) {
    if (std::string_view(point) == "process: a step of the search") steps.fetch_add(1);
  });
  EXPECT_EQ(three.sync(ask({"a"}, 1)).status, Result::kTimedOut);
  onSeam(nullptr);
  EXPECT_GE(steps.load(), kWaiters);
  EXPECT_LE(steps.load(), 3 * kWaiters);
}

TEST(Process, FailsAnyNumberOfWaitersOnASmallStack) {
  const Folder folder;
  constexpr std::size_t kWaiters = 3000;
  Member one(folder.file(), 16);
  const std::vector<std::string> keys = keysInOrder(folder.file(), kWaiters + 1);
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
  // Nobody rings when a process dies.
  const UsualSlices usual;
  Member one(folder.file());
  Other other(folder.file());
  auto dead = std::make_optional<Other>(folder.file());
  EXPECT_TRUE(dead->hold("a"));
  const std::uint32_t pending = one.pend(ask({"a"}));
  dead.reset();
  EXPECT_TRUE(eventually([&] { return one.thread().hasReady(); }));
  EXPECT_TRUE(one.thread().cancel(pending));
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
  return LockFile::open(path, error)->size();
}

}  // namespace

TEST(Process, WritesNoHeaderWhileAnotherProcessHasTheFileOpen) {
  const Folder folder;
  auto other = std::make_optional<Other>(folder.file());
  ASSERT_EQ(truncate(folder.file().c_str(), 0), 0);
  EXPECT_EQ(faultOf(folder.file()), FileFault::kDamaged);
  EXPECT_EQ(faultOf(folder.file(), 4), FileFault::kDamaged);
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
  EXPECT_EQ(faultOf(folder.file(), 5), FileFault::kFiles);
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
    EXPECT_EQ(other.page().files(), 16u);
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
    EXPECT_EQ(faultOf(folder.file(), 4), FileFault::kFiles);
  }
  EXPECT_EQ(faultOf(folder.file(), 4), FileFault::kFiles);
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

TEST(Process, WorksWithoutASlot) {
  const Folder folder;
  { const Member maker(folder.file()); }
  FileError error;
  const std::unique_ptr<LockFile> all = LockFile::open(folder.file(), error);
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
  const std::unique_ptr<LockFile> all = LockFile::open(folder.file(), error);
  int number = 0;
  for (int slot = 0; slot < kSlots; ++slot)
    all->lock(kLifeBytes + static_cast<std::uint64_t>(slot), false, number);
  Member one(folder.file());
  Other other(folder.file());
  EXPECT_TRUE(other.hold("a"));
  one.pend(ask({"a"}));
  EXPECT_FALSE(other.page().isAwaited(other.byteOf("a")));
  constexpr std::uint64_t kFreed = kLifeBytes + 5;
  EXPECT_FALSE(all->lockedElsewhere(kFreed));
  all->unlock(kFreed);
  EXPECT_TRUE(eventually([&] { return all->lockedElsewhere(kFreed); }));
  // From now on others know that it waits, and wake it.
  EXPECT_TRUE(eventually([&] { return other.page().isAwaited(other.byteOf("a")); }));
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
  const auto seen = one.thread().inspect(one.file(), error);
  ASSERT_EQ(seen.size(), 4u);
  for (const auto& use : seen) {
    EXPECT_EQ(use.key, use.here == use.waits ? "theirs" : "mine");
    EXPECT_EQ(use.pid, processId());
    EXPECT_EQ(use.title, use.here ? "" : "other");
  }
}

TEST(Process, SurvivesManyThreadsAndProcesses) {
  const Folder folder;
  const std::uint64_t seed = seeded("process stress")();
  constexpr std::uint32_t kKeyCount = 3;
  // Not atomic on purpose: the sanitizer sees when two hold a key.
  std::array<std::uint64_t, kKeyCount> values{};
  std::array<std::uint64_t, kKeyCount> tokens{};
  const auto work = [&](std::uint64_t own) {
    Random random(own);
    for (int life = 0; life < 4; ++life) {
      Member member(folder.file());
      for (int i = 0; i < 150; ++i) {
        const std::uint32_t first = below(random, kKeyCount);
        std::vector<std::uint32_t> keys{first};
        if (oneIn(random, 4)) keys.push_back((first + 1) % kKeyCount);
        std::vector<std::string> names;
        for (const std::uint32_t key : keys) names.push_back(std::to_string(key));
        const bool shared = oneIn(random, 4);
        ProcessOutcome outcome;
        if (oneIn(random, 2)) {
          outcome = member.sync(ask(names, oneIn(random, 4) ? 0.5 : kStuck, shared));
        } else {
          outcome = member.async(ask(names, kForever, shared));
          if (outcome.status == Result::kPending) {
            if (oneIn(random, 8) && member.thread().cancel(outcome.id)) continue;
            if (oneIn(random, 16)) {
              const ProcessOutcome inner = member.sync(ask({"other"}));
              if (inner.status == Result::kGranted) member.release(inner.id);
            }
            const auto news = member.awaitNews();
            ASSERT_TRUE(news);
            outcome = *news;
          }
        }
        if (outcome.status != Result::kGranted) continue;
        for (const std::uint32_t key : keys) {
          if (shared) {
            EXPECT_GT(outcome.token, tokens[key]);
            continue;
          }
          ++values[key];
          EXPECT_GT(outcome.token, tokens[key]);
          tokens[key] = outcome.token;
        }
        // Some end without releasing.
        if (i < 149) member.release(outcome.id);
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back(work, seed + i);
  // Another process that holds, waits its turn, and dies.
  std::atomic<bool> done{false};
  std::thread foreign([&] {
    Random random(seed + 99);
    while (!done.load()) {
      Other other(folder.file());
      for (int i = 0; i < 10; ++i) {
        const std::string key = std::to_string(below(random, kKeyCount));
        other.enrol(key);
        if (other.hold(key)) {
          other.page().takeTurn(other.byteOf(key));
          if (i < 9) other.free(key);
        }
        other.withdraw(key);
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  done.store(true);
  foreign.join();
}

}  // namespace stripelock::test
