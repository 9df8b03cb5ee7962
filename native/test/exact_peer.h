#pragma once

#include <string>

#include "core/name_table.h"
#include "test/support.h"

namespace stripelock::test {

// An environment that uses one lock on exact keys.
struct ExactPeer : Peer {
  explicit ExactPeer(SharedMemory& memory) : Peer(memory, true) {}
  std::uint32_t pin(const std::string& key) { return client.membership().pin(KeyView(key)).stripe; }
  Membership::Pinned pinOnce(const std::string& key) { return client.membership().pinOnce(KeyView(key)); }
  // Whether it is still pinned.
  bool unpin(std::uint32_t stripe) {
    auto number = static_cast<std::int32_t>(stripe);
    return client.membership().unpin(&number, 1) == 1;
  }
  NameTable& names() { return *client.table().names(); }
};

}  // namespace stripelock::test
