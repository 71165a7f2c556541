// Shortens text from outside, or makes it printable, for records and messages.
#pragma once

#include <string>
#include <string_view>

namespace ingot::gateway {

// The first `max_bytes` of valid UTF-8 at most, cut behind a whole character.
inline std::string CutText(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end));
}

// The first `max_bytes` at most, with '?' in place of bytes that are not printable ASCII.
inline std::string Printable(std::string_view bytes, size_t max_bytes) {
  std::string text(bytes.substr(0, max_bytes));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace ingot::gateway
