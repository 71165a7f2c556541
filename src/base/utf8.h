// Decodes, validates, and truncates UTF-8 (RFC 3629). Proto string fields must be valid UTF-8 because protobuf accepts
// invalid bytes when writing but not when reading. ToUtf8 makes text from agents, tasks, clients, and servers valid
// before it is stored in such a field, and CutText truncates it. base/printable.h makes text safe for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot::base {

bool IsValidUtf8(std::string_view text);

// A character and its length in bytes.
struct CodePoint {
  uint32_t value = 0;
  uint32_t size = 0;
};
// Returns the first character of any string. Size 0 = the string does not start with a valid character.
CodePoint FirstCharacter(std::string_view text);

// Returns the character at `at` without validating it. REQUIRES: `text` is valid UTF-8, and a character starts at `at`.
inline CodePoint DecodeAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[at + i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

// Returns true if the byte is part of a character but not its first byte.
inline bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Returns the start of the character that contains byte `at`, or the end of the text if `at` is past the end.
inline size_t StartOf(std::string_view text, size_t at) {
  if (at >= text.size()) return text.size();
  while (at > 0 && IsContinuation(text[at])) --at;
  return at;
}

// Returns the character at `at` and advances `at` past it. A byte that does not start a character counts as U+FFFD.
// REQUIRES: at < text.size().
char32_t NextCharacter(std::string_view text, size_t& at);
// Returns the character that ends before `at` and moves `at` to its first byte. REQUIRES: at > 0.
char32_t PreviousCharacter(std::string_view text, size_t& at);

void AppendUtf8(uint32_t c, std::string& out);

// Returns the number of characters. REQUIRES: `text` is valid UTF-8.
size_t CountCharacters(std::string_view text);

// Splits a byte stream into whole UTF-8 characters. The bytes of an incomplete character are held until the next Push.
// Invalid bytes become U+FFFD as soon as it is certain that they cannot be completed.
class Utf8Stream {
 public:
  std::string Push(std::string_view bytes);
  std::string Flush();
  bool holds() const { return !held_.empty(); }  // true = holds an incomplete character

 private:
  std::string held_;
};

// Converts `bytes` with a Utf8Stream. The result is always valid UTF-8.
std::string ToUtf8(std::string_view bytes);

// Truncates valid UTF-8 to at most `max_bytes` without splitting a character.
std::string CutText(std::string_view text, size_t max_bytes);

}  // namespace ingot::base
