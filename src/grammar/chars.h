// Builds automata for characters written as bytes, either in UTF-8 or in JSON and Python strings.
//
// In canonical spelling, each character has exactly one form. In JSON, it is unescaped if allowed. Otherwise it is the
// short escape (\" \\ \b \f \n \r \t) if there is one, or else \u00xx in lowercase. In Python, only the enclosing
// quotation mark (\' or \"), the backslash (\\), and control characters (\n \r \t, or else \xhh in lowercase) are
// escaped. Surrogates are not characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/dfa.h"

namespace ingot::grammar {

struct Interval {
  uint32_t low, high;  // inclusive
  bool operator==(const Interval&) const = default;
};
// Ascending and disjoint intervals of Unicode scalar values.
using CodePoints = std::vector<Interval>;

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// Sorts and merges the intervals and removes surrogates.
CodePoints Normalize(const CodePoints& set);
CodePoints Complement(const CodePoints& set);
CodePoints AllCodePoints();

// Specifies how characters are written as bytes.
enum class Spelling {
  kJson,          // content of a JSON string in canonical spelling
  kRaw,           // plain UTF-8
  kSingleQuoted,  // content of a Python string between ' and ' in canonical spelling
  kDoubleQuoted,  // content of a Python string between " and " in canonical spelling
};
// Returns the quotation mark around strings in this spelling. REQUIRES: not kRaw.
char QuotationMark(Spelling spelling);
// Returns the spelling's name, which is part of leaf names in the LeafPool.
std::string_view SpellingName(Spelling spelling);

// Add edges from `from` to `to` that consume one character in the set, in UTF-8 or in `spelling`.
void AddUtf8(Nfa& nfa, int32_t from, int32_t to, const CodePoints& set);
void AddCharacter(Nfa& nfa, int32_t from, int32_t to, const CodePoints& set, Spelling spelling);

// Returns `text` (valid UTF-8) as a quoted string in canonical spelling. REQUIRES: not kRaw.
std::string QuoteText(std::string_view text, Spelling spelling = Spelling::kJson);

// Returns an automaton that accepts every string in every valid spelling, including quotation marks. In JSON, these are
// unescaped characters, short escapes, \uXXXX in upper or lower case, and surrogate pairs, but no lone surrogates. In
// Python, with the quotation marks of `spelling`, these are unescaped characters except control characters, the escapes
// \\ \' \" \n \r \t, and \xhh, \uXXXX, and \UXXXXXXXX in upper or lower case, but no surrogates. kStringBoundary is the
// state between two characters. REQUIRES: not kRaw.
absl::StatusOr<Dfa> StringDfa(Spelling spelling, Budget& budget);
inline constexpr int32_t kStringBoundary = 1;

// Data about each state of an automaton over quoted strings in canonical spelling. between = 1 if the state is between
// two characters. finish = minimum number of characters until the string can end, including a partial character.
// REQUIRES: not kRaw.
struct CharacterCounts {
  std::vector<uint8_t> between;
  std::vector<uint32_t> finish;
};
CharacterCounts CountCharacters(const Dfa& quoted, Spelling spelling);

// Adds the optional whitespace between two JSON tokens: nothing, one space, or one line feed and up to kMaxIndent
// spaces. Returns the state after it.
inline constexpr int kMaxIndent = 32;
int32_t AddWhitespace(Nfa& nfa, int32_t from);

}  // namespace ingot::grammar
