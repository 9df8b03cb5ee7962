// Shared code of the tests of web locks.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/web_locks/web_lock_client.h"
#include "test/support.h"

namespace stripelock::test {

// Separate managers keep the tests apart.
inline std::uint64_t newManager() { return WebLocks::instance().issueManager(); }

// A thread that uses the web locks of one manager.
class WebLockPeer {
 public:
  explicit WebLockPeer(std::uint64_t manager) : manager_(manager), client_(environment_.participant()) {}
  ~WebLockPeer() { end(); }
  WebLockPeer(const WebLockPeer&) = delete;
  WebLockPeer& operator=(const WebLockPeer&) = delete;

  Environment& environment() { return environment_; }
  WebLockClient& client() { return *client_; }

  // Ends the client and the environment, as the end of a thread does.
  void end() {
    client_.reset();
    environment_.end();
  }
  WebLockClient::Started request(std::u16string_view name, Mode mode = Mode::kExclusive,
                                 WebLockHow how = WebLockHow::kWait) {
    return client_->request(WebLockName(manager_, name).view(), mode, how);
  }
  WebLockAnswer answer(std::u16string_view name, Mode mode = Mode::kExclusive,
                       WebLockHow how = WebLockHow::kWait) {
    return request(name, mode, how).answer;
  }
  // hold() expects to get the lock at once, pend() expects to wait. Both return the request's ticket.
  std::uint32_t hold(std::u16string_view name, Mode mode = Mode::kExclusive) {
    return expect(WebLockAnswer::kHeld, request(name, mode));
  }
  std::uint32_t pend(std::u16string_view name, Mode mode = Mode::kExclusive) {
    return expect(WebLockAnswer::kPending, request(name, mode));
  }
  std::uint32_t steal(std::u16string_view name) {
    return expect(WebLockAnswer::kHeld, request(name, Mode::kExclusive, WebLockHow::kSteal));
  }
  // Returns an empty list if the thread has no news.
  std::vector<WebLockClient::News> take();
  // Waits until the event loop is woken, and returns the news. Returns an empty list after kStuck.
  std::vector<WebLockClient::News> awaitNews();
  bool release(std::uint32_t ticket) { return client_->release(ticket); }
  bool cancel(std::uint32_t ticket) { return client_->cancel(ticket); }

 private:
  static std::uint32_t expect(WebLockAnswer answer, const WebLockClient::Started& started);

  const std::uint64_t manager_;
  Environment environment_;
  std::optional<WebLockClient> client_;
};

// One line for each name with its requests. For instance, "name: 1X | 2S 3X" means: thread 1 holds the lock
// exclusively, a shared request of thread 2 waits, and an exclusive request of thread 3 waits behind that request.
// Threads are counted from `first`.
std::vector<std::string> describe(std::uint64_t manager, WebLockPeer& first);

// Whether a query may return `info`: W1 and W2 hold, and the name is held or waited for.
bool isSound(const WebLocks::NameInfo& info);

}  // namespace stripelock::test
