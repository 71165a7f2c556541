// Reads keys and tokens from files that only the owner can read, and compares them in constant time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::base {

// Compares every byte so that the timing does not reveal where two secrets differ. Secrets of different lengths are
// never equal.
inline bool SameSecret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char differs = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const volatile unsigned char bits = static_cast<unsigned char>(a[i] ^ b[i]);
    differs = static_cast<unsigned char>(differs | bits);
  }
  return differs == 0;
}

// Returns true if `word` is a valid secret: 16 to 4096 printable ASCII characters without spaces, so it can be used in
// an HTTP header.
bool IsSecret(std::string_view word);

// Returns the only word in the file at `path`, which must satisfy IsSecret. Surrounding whitespace is ignored. Returns
// INVALID_ARGUMENT if the file cannot be read, is accessible to other users (fix: chmod 600), or has other content. The
// error never shows the content.
absl::StatusOr<std::string> ReadSecret(const std::string& path);

// Return server-supplied text or a server's error with the key removed. Empty `key` = nothing to remove.
std::string WithoutKey(const std::string& text, const std::string& key);
absl::Status WithoutKey(const absl::Status& error, const std::string& key);

}  // namespace ingot::base
