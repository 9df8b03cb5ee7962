#include "test/web_lock_support.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace stripelock::test {

std::uint32_t WebLockPeer::expect(WebLockAnswer answer, const WebLockClient::Started& started) {
  EXPECT_EQ(started.answer, answer);
  return started.ticket;
}

std::vector<WebLockClient::News> WebLockPeer::take() {
  std::vector<WebLockClient::News> all;
  std::array<WebLockClient::News, 2> some{};
  while (const std::size_t count = client_->take(some.data(), some.size()))
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
  return all;
}

std::vector<WebLockClient::News> WebLockPeer::awaitNews() {
  while (environment_.awaitWake(kStuck)) {
    // Collects grants as the event loop does; otherwise no further wake is sent.
    takeGrants(environment_);
    std::vector<WebLockClient::News> news = take();
    if (!news.empty()) return news;
  }
  ADD_FAILURE() << "no news";
  return {};
}

std::vector<std::string> describe(std::uint64_t manager, WebLockPeer& first) {
  std::vector<std::string> lines;
  for (const WebLocks::NameInfo& info : WebLocks::instance().query(manager)) {
    std::string line(info.name.begin(), info.name.end());
    line += ":";
    bool held = true;
    for (const WebLocks::Info& request : info.requests) {
      if (held && !request.held) line += " |";
      held = request.held;
      line += " " + std::to_string(request.threadId - first.environment().threadId() + 1) +
              (request.mode == Mode::kExclusive ? "X" : "S");
    }
    lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

bool isSound(const WebLocks::NameInfo& info) {
  std::size_t held = 0;
  while (held < info.requests.size() && info.requests[held].held) ++held;
  if (held == 0) return false;
  for (std::size_t i = 1; i < held; ++i) {
    if (!goTogether(info.requests[0].mode, info.requests[i].mode)) return false;
  }
  if (held == info.requests.size()) return true;
  const WebLocks::Info& next = info.requests[held];
  return !next.held && !goTogether(info.requests[0].mode, next.mode);
}

}  // namespace stripelock::test
