#include "execution/utf8.h"

#include <cstdint>

namespace ingot::execution {
namespace {

// The bytes of the character at the front: 0 = it is none, -1 = it may become one with further bytes.
int CharacterSize(std::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const int size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (int i = 1; i < size; ++i) {
    if (static_cast<size_t>(i) == text.size()) return -1;
    if ((byte(i) & 0xC0) != 0x80) return 0;
    // Overlong forms, surrogates, and numbers above U+10FFFF.
    if (i == 1 && ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
                   (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F))) {
      return 0;
    }
  }
  return size;
}

}  // namespace

std::string Utf8Text::Add(std::string_view bytes) {
  std::string text = left_;
  text += bytes;
  left_.clear();
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const int size = CharacterSize(std::string_view(text).substr(at));
    if (size < 0) {
      left_ = text.substr(at);
      break;
    }
    if (size == 0) valid += '?';
    if (size > 0) valid.append(text, at, static_cast<size_t>(size));
    at += size == 0 ? 1 : static_cast<size_t>(size);
  }
  return valid;
}

std::string Utf8Text::Rest() {
  const bool has_rest = !left_.empty();
  left_.clear();
  return has_rest ? "?" : "";
}

std::string ValidUtf8(std::string_view bytes) {
  Utf8Text text;
  std::string valid = text.Add(bytes);
  return valid + text.Rest();
}

}  // namespace ingot::execution
