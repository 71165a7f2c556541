// Shortens text from outside for records and messages; base/printable.h escapes it.
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

}  // namespace ingot::gateway
