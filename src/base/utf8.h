// UTF-8 (RFC 3629), for all folders. A string field of a message holds only valid UTF-8: protobuf writes other bytes
// but fails to read them. CutText cuts each text that an agent, a task, a client or a server chose, and ToUtf8 makes it
// valid before it goes into such a field. base/printable.h makes it safe for a terminal.
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
// The character at the beginning of any text; size 0 = the text does not begin with a character.
CodePoint FirstCharacter(std::string_view text);

// The character at `at`, without a check. REQUIRES: valid UTF-8, and a character begins at `at`.
inline CodePoint DecodeAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[at + i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

// Whether a byte belongs to a character but is not its first byte.
inline bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Where the character of byte `at` begins, so `at` itself between two characters; the text's end if `at` is past it.
inline size_t StartOf(std::string_view text, size_t at) {
  if (at >= text.size()) return text.size();
  while (at > 0 && IsContinuation(text[at])) --at;
  return at;
}

// The character at `at`; moves `at` past it. A byte that begins no character counts as U+FFFD. REQUIRES: at <
// text.size().
char32_t NextCharacter(std::string_view text, size_t& at);
// The character that ends before `at`; moves `at` to its first byte. REQUIRES: at > 0.
char32_t PreviousCharacter(std::string_view text, size_t& at);

void AppendUtf8(uint32_t c, std::string& out);

// The number of characters. REQUIRES: valid UTF-8.
size_t CountCharacters(std::string_view text);

// Cuts a stream of bytes at whole UTF-8 characters; the bytes of an unfinished character wait for the next Push.
// Invalid bytes become U+FFFD as soon as they cannot be completed.
class Utf8Stream {
 public:
  std::string Push(std::string_view bytes);
  std::string Flush();
  bool holds() const { return !held_.empty(); }  // an unfinished character waits

 private:
  std::string held_;
};

// All of `bytes` through a Utf8Stream: always valid UTF-8.
std::string ToUtf8(std::string_view bytes);

// At most the first `max_bytes` of valid UTF-8, cut after a whole character.
std::string CutText(std::string_view text, size_t max_bytes);

}  // namespace ingot::base
