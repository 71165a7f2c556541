#include "text/text_key.h"

#include <cstdint>

#include "base/checksum.h"

namespace ingot::text {
namespace {

constexpr size_t kContentKeyBytes = 16, kLengthBytes = 8;

}  // namespace

std::string TextKey(std::string_view text) {
  std::string key = base::ContentKey(text);
  for (size_t i = 0; i < kLengthBytes; ++i) key.push_back(static_cast<char>(text.size() >> (8 * i)));
  return key;
}

std::optional<std::string_view> BeginningNamed(std::string_view text, std::string_view text_key) {
  if (text_key.size() != kContentKeyBytes + kLengthBytes) return std::nullopt;
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(text_key[kContentKeyBytes + i]);
  }
  if (length > text.size()) return std::nullopt;
  const std::string_view beginning = text.substr(0, length);
  if (base::ContentKey(beginning) != text_key.substr(0, kContentKeyBytes)) return std::nullopt;
  return beginning;
}

}  // namespace ingot::text
