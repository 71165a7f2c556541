#include "text/chat/text_key.h"

#include <cstdint>

#include "base/checksum.h"

namespace ingot::text {
namespace {

constexpr size_t kContentKeyBytes = 16, kLengthBytes = 8;

std::string KeyOf(const base::Key128& content, size_t length) {
  std::string key(base::KeyBytes(content));
  for (size_t i = 0; i < kLengthBytes; ++i) key.push_back(static_cast<char>(length >> (8 * i)));
  return key;
}

// Returns nullopt if `text_key` was not created by TextKey.
std::optional<uint64_t> LengthIn(std::string_view text_key) {
  if (text_key.size() != kContentKeyBytes + kLengthBytes) return std::nullopt;
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(text_key[kContentKeyBytes + i]);
  }
  return length;
}

}  // namespace

std::string TextKey(std::string_view text) { return KeyOf(base::ContentKey128(text), text.size()); }

KeyedText KeyText(std::string_view text, std::string_view prefix_key) {
  const std::optional<uint64_t> length = LengthIn(prefix_key);
  if (!length.has_value() || *length > text.size()) return {TextKey(text), std::nullopt};
  KeyedText keyed;
  base::StreamingContentKey content;
  const std::string_view prefix = text.substr(0, *length);
  content.Update(prefix);
  if (KeyOf(content.Digest(), prefix.size()) == prefix_key) keyed.prefix = prefix;
  content.Update(text.substr(*length));
  keyed.key = KeyOf(content.Digest(), text.size());
  return keyed;
}

}  // namespace ingot::text
