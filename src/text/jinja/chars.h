// Code points of UTF-8 text, with Python's notion of white space, case and printability.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ingot::text::jinja {

bool IsUtf8(std::string_view text);

// REQUIRES for all that follows: `text` is valid UTF-8 and offsets are at code point borders.

inline bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }
size_t CountChars(std::string_view text);
// Byte offset of code point `index`; text.size() if there are fewer.
size_t ByteOffset(std::string_view text, size_t index);
// The code point at byte `at`; moves `at` past it.
char32_t NextChar(std::string_view text, size_t& at);
// The code point that ends before byte `at`; moves `at` to its begin. REQUIRES: at > 0.
char32_t PreviousChar(std::string_view text, size_t& at);
void AppendChar(char32_t c, std::string& out);

bool IsSpace(char32_t c);      // str.isspace
bool IsLineBreak(char32_t c);  // where str.splitlines cuts (\r\n is one)
bool IsPrintable(char32_t c);  // what repr() prints as it is
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsNumeric(char32_t c);
bool IsLower(char32_t c);
bool IsUpper(char32_t c);
bool IsTitle(char32_t c);
inline bool IsCased(char32_t c) { return IsLower(c) || IsUpper(c) || IsTitle(c); }
// What regular expressions call \w.
inline bool IsWord(char32_t c) { return c == '_' || IsAlpha(c) || IsNumeric(c); }

// Full case mapping: one code point may become several, a final sigma is recognised.
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
// First code point to title case, the rest lower.
std::string Capitalize(std::string_view text);
// str.title: every run of cased characters capitalized.
std::string TitleWords(std::string_view text);

// text without white space (or without the code points of `chars`) at its begin and end: [first, last) in bytes.
struct Range {
  size_t begin;
  size_t end;
};
Range StripRange(std::string_view text, bool left, bool right, const std::string_view* chars);

}  // namespace ingot::text::jinja
