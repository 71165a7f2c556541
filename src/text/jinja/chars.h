// Code points of UTF-8 text, with Python's rules for white space, case and printability.
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

// REQUIRES, for all functions below: `text` is valid UTF-8, and offsets are at borders of code points.

// Byte offset of code point `index`; text.size() if the text has fewer.
size_t ByteOffset(std::string_view text, size_t index);

bool IsSpace(char32_t c);      // str.isspace
bool IsLineBreak(char32_t c);  // separates lines for str.splitlines (\r\n is one separator)
bool IsPrintable(char32_t c);  // repr() does not escape it
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsNumeric(char32_t c);
bool IsLower(char32_t c);
bool IsUpper(char32_t c);
bool IsTitle(char32_t c);
inline bool IsCased(char32_t c) { return IsLower(c) || IsUpper(c) || IsTitle(c); }
// \w of Python's regular expressions.
inline bool IsWord(char32_t c) { return c == '_' || IsAlpha(c) || IsNumeric(c); }

// Full case mapping: one code point may become several; Lower() writes a final sigma.
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
// The first code point in title case, the others in lower case.
std::string Capitalize(std::string_view text);
// Python's str.title: capitalizes every run of cased characters.
std::string TitleWords(std::string_view text);

// Bytes [begin, end) of a text.
struct Range {
  size_t begin;
  size_t end;
};
// `text` without white space at its left or right end, or without the code points in `chars` (null = white space).
Range StripRange(std::string_view text, bool left, bool right, const std::string_view* chars);

}  // namespace ingot::text::jinja
