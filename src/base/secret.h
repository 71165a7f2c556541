// Keys and tokens: read from files that only their owner can read, and compared in constant time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::base {

// Compares every byte, so that the time does not show where two secrets differ. Secrets of different lengths differ.
inline bool SameSecret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char differs = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const volatile unsigned char bits = static_cast<unsigned char>(a[i] ^ b[i]);
    differs = static_cast<unsigned char>(differs | bits);
  }
  return differs == 0;
}

// Whether `word` is a secret: 16 to 4096 printable ASCII characters without spaces, so that it fits into a header.
bool IsSecret(std::string_view word);

// The one word of the file at `path`, an IsSecret; white space around it is ignored. INVALID_ARGUMENT: the file
// cannot be read, is open to other users (chmod 600), or holds something else. The error never shows the content.
absl::StatusOr<std::string> ReadSecret(const std::string& path);

// A text or an error that a server may have written, without the key. An empty key = there is no key.
std::string WithoutKey(const std::string& text, const std::string& key);
absl::Status WithoutKey(const absl::Status& error, const std::string& key);

}  // namespace ingot::base
