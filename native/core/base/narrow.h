// Stores UTF-16 text in half as many bytes, if the upper half of each code unit is 0.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stripelock {

// Copies the lower half of each unit. Returns the bitwise OR of all units. If the result is below 0x100, nothing was
// lost; if it is below 0x80, the text is ASCII.
inline std::uint32_t narrow(std::u16string_view text, char* out) {
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    all |= text[i];
    out[i] = static_cast<char>(text[i]);
  }
  return all;
}

// Converts narrowed text back to UTF-16.
inline std::u16string widen(std::string_view narrowed) {
  std::u16string text(narrowed.size(), u'\0');
  for (std::size_t i = 0; i < narrowed.size(); ++i) text[i] = static_cast<unsigned char>(narrowed[i]);
  return text;
}

}  // namespace stripelock
