#include "core/web_locks/web_lock_name.h"

#include <cstring>

#include "core/base/narrow.h"

namespace stripelock {

namespace {

constexpr std::size_t kHead = sizeof(std::uint64_t);
// The lowest bit of the head, below the manager. Set if each unit takes two bytes.
constexpr std::uint64_t kWide = 1;

std::uint64_t headOf(const KeyView& key) {
  std::uint64_t head = 0;
  std::memcpy(&head, key.text.data(), kHead);
  return head;
}

}  // namespace

WebLockName::WebLockName(std::uint64_t manager, std::u16string_view name) : view_(encode(manager, name)) {}

std::string_view WebLockName::encode(std::uint64_t manager, std::u16string_view name) {
  const std::size_t most = kHead + name.size() * sizeof(char16_t);
  char* out = few_.data();
  if (most > few_.size()) {
    many_ = std::make_unique<char[]>(most);
    out = many_.get();
  }
  std::uint64_t head = manager << 1;
  std::size_t length = name.size();
  if (narrow(name, out + kHead) >= 0x100) {
    // mutant: web-names-mix-widths
    head |= kWide;
    length *= sizeof(char16_t);
    std::memcpy(out + kHead, name.data(), length);
  }
  std::memcpy(out, &head, kHead);
  return {out, kHead + length};
}

std::uint64_t WebLockName::managerOf(const KeyView& key) { return headOf(key) >> 1; }

std::u16string WebLockName::nameOf(const KeyView& key) {
  const std::string_view text = key.text.substr(kHead);
  if ((headOf(key) & kWide) == 0) return widen(text);
  std::u16string name(text.size() / sizeof(char16_t), u'\0');
  std::memcpy(name.data(), text.data(), text.size());
  return name;
}

}  // namespace stripelock
