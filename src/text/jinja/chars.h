// Handles code points in UTF-8 text, with Python's rules for whitespace, case, and printability.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace ingot::text::jinja {

using base::AppendUtf8;
using base::CountCharacters;
using base::IsContinuation;
using base::NextCharacter;
using base::PreviousCharacter;

// REQUIRES for all functions below: `text` is valid UTF-8, and offsets are at code point boundaries.

// Returns the byte offset of code point `index`, or text.size() if there are fewer code points.
size_t ByteOffset(std::string_view text, size_t index);

bool IsSpace(char32_t c);      // like str.isspace
bool IsLineBreak(char32_t c);  // line separators of str.splitlines (\r\n is one separator)
bool IsPrintable(char32_t c);  // repr() does not escape it
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsNumeric(char32_t c);
bool IsLower(char32_t c);
bool IsUpper(char32_t c);
bool IsTitle(char32_t c);
inline bool IsCased(char32_t c) { return IsLower(c) || IsUpper(c) || IsTitle(c); }
// Like \w in Python's regular expressions.
inline bool IsWord(char32_t c) { return c == '_' || IsAlpha(c) || IsNumeric(c); }

// Full case mapping: one code point may become several. Lower() handles the final sigma.
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
// Converts the first code point to title case and the others to lowercase.
std::string Capitalize(std::string_view text);
// Like Python's str.title: capitalizes every run of cased characters.
std::string TitleWords(std::string_view text);

// Bytes [begin, end) of a string.
struct Range {
  size_t begin;
  size_t end;
};
// Returns the range that remains after stripping whitespace, or the code points in `chars` if not null, from the left
// or right end.
Range StripRange(std::string_view text, bool left, bool right, const std::string_view* chars);

}  // namespace ingot::text::jinja
