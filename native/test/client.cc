#include <gtest/gtest.h>

#include "test/support.h"

namespace stripelock::test {

Client::Client(Environment& environment, SharedMemory& memory, bool exact, std::uint32_t limit)
    : environment_(environment),
      shares_(std::make_unique<Word[]>(shareIntsFor(memory.stripes()))),
      membership_(Registry::instance().open(environment.participant(), memory.data(), memory.stripes(), exact,
                                            limit)) {
  if (membership_ && !membership_->hasShares()) membership_->openShares(shares_.get());
}

// Ends the membership first, because it uses the shares.
Client::~Client() {
  if (environment_.hasEnded()) return;
  close();
}

void Client::close() {
  if (membership_) Registry::instance().close(*membership_);
  membership_ = nullptr;
}

bool Client::take(std::uint32_t stripe, Mode mode) {
  Word& word = table().word(stripe);
  std::uint32_t seen = 0;
  if (!isCounted(mode)) return word.compare_exchange_strong(seen, environment_.slot());
  if (!word.compare_exchange_strong(seen, kShared + 1)) {
    const bool plain = countsHolds(seen) && (seen & (kQueued | kAbandoned)) == 0 &&
                       holderOf(seen) < mostHolds(table().limit());
    if (!plain || !word.compare_exchange_strong(seen, seen + 1)) return false;
  }
  shares_[stripe].fetch_add(1);
  return true;
}

bool Client::giveBack(std::uint32_t stripe, Mode mode) {
  Word& word = table().word(stripe);
  if (!isCounted(mode)) {
    std::uint32_t seen = environment_.slot();
    return word.compare_exchange_strong(seen, 0);
  }
  if (shares_[stripe].load() == 0) return false;
  std::uint32_t seen = word.load();
  std::uint32_t next = 0;
  const bool asks = hasPermits(table().limit()) && (seen & (kQueued | kAbandoned)) != 0;
  if (countsHolds(seen) && holderOf(seen) > 1 && !asks) {
    next = seen - 1;
  } else if (seen != kShared + 1) {
    return false;
  }
  if (!word.compare_exchange_strong(seen, next)) return false;
  shares_[stripe].fetch_sub(1);
  return true;
}

std::uint32_t Client::takeFirst(const Stripes& stripes, Ask ask) {
  std::uint32_t taken = 0;
  while (ask.fast && taken < stripes.size() && take(stripes[taken], ask.mode)) ++taken;
  return taken;
}

SyncOutcome Client::acquireSync(const Stripes& stripes, Ask ask, Interrupt interrupt) {
  const Request request{.stripes = stripes.data(),
                        .count = static_cast<std::uint32_t>(stripes.size()),
                        .taken = takeFirst(stripes, ask),
                        .mode = ask.mode,
                        .timeout = ask.timeout};
  return SyncWait(*membership_, request, interrupt).run();
}

AsyncWaits::Started Client::acquire(const Stripes& stripes, Ask ask) {
  const Request request{.stripes = stripes.data(),
                        .count = static_cast<std::uint32_t>(stripes.size()),
                        .taken = takeFirst(stripes, ask),
                        .mode = ask.mode,
                        .timeout = ask.timeout};
  return environment_.async().start(*membership_, request);
}

std::uint32_t Client::pend(const Stripes& stripes, Ask ask) {
  const AsyncWaits::Started started = acquire(stripes, ask);
  EXPECT_EQ(started.status, AsyncStart::kPending);
  return started.id;
}

bool Client::release(const Stripes& stripes, Mode mode) {
  bool held = true;
  for (std::size_t i = stripes.size(); i-- > 0;) {
    if (!giveBack(stripes[i], mode) && !releaseSlow(stripes[i], mode)) held = false;
  }
  return held;
}

Blocking::Blocking(Client& client, Stripes stripes, Ask ask, Interrupt interrupt)
    : table_(client.table()), thread_([this, &client, stripes = std::move(stripes), ask, interrupt] {
        const Nanoseconds start = now();
        outcome_ = client.acquireSync(stripes, ask, interrupt);
        took_ = now() - start;
        decided_.store(true);
      }) {}

const SyncOutcome& Blocking::join() {
  if (!thread_.joinable()) return outcome_;
  // A test's timeouts are at most kStuck, so this is well beyond them.
  const Deadline deadline = Deadline::after(1.5 * kStuck);
  while (!decided()) {
    if (deadline.passedAt(now())) {
      describe(table_);
      stuck("a sync acquisition");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  thread_.join();
  return outcome_;
}

double Blocking::milliseconds() {
  join();
  return test::milliseconds(took_);
}

}  // namespace stripelock::test
