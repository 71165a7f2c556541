// Text from outside, made short and printable before it goes into records and messages.
#pragma once

#include <string>
#include <string_view>

namespace ingot::gateway {

// At most `max_bytes` of valid UTF-8, cut at a whole character.
inline std::string CutText(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end));
}

// At most `max_bytes` of any bytes, with '?' for what is not printable ASCII.
inline std::string Printable(std::string_view bytes, size_t max_bytes) {
  std::string text(bytes.substr(0, max_bytes));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace ingot::gateway
