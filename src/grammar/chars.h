// Characters as bytes: UTF-8, and the spelling of strings in JSON and in Python.
//
// Canonical spelling writes each character in exactly one way. JSON: raw where JSON allows it, else the short escape
// (\" \\ \b \f \n \r \t), else \u00xx in lower case. Python: raw, except for the enclosing quotation mark (\' or \"),
// the backslash (\\) and control characters (\n \r \t, else \xhh in lower case). Surrogates are not characters.
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
// Ascending, disjoint intervals of Unicode scalar values.
using CodePoints = std::vector<Interval>;

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// Sorts and joins the intervals, and removes surrogates.
CodePoints Normalize(const CodePoints& set);
CodePoints Complement(const CodePoints& set);
CodePoints AllCodePoints();

// How the characters of a text are written as bytes.
enum class Spelling {
  kJson,          // the content of a JSON string in canonical spelling
  kRaw,           // plain UTF-8
  kSingleQuoted,  // the content of a Python string between ' and ', in canonical spelling
  kDoubleQuoted,  // the content of a Python string between " and "
};
// The quotation mark around a string of this spelling. REQUIRES: not kRaw.
char QuotationMark(Spelling spelling);
// A name for the spelling, part of a leaf's name in the LeafPool.
std::string_view SpellingName(Spelling spelling);

// Adds edges from `from` to `to` that take one character of the set, as UTF-8 or in `spelling`.
void AddUtf8(Nfa& nfa, int32_t from, int32_t to, const CodePoints& set);
void AddCharacter(Nfa& nfa, int32_t from, int32_t to, const CodePoints& set, Spelling spelling);

// `text` (valid UTF-8) as a quoted string in canonical spelling. REQUIRES: not kRaw.
std::string QuoteText(std::string_view text, Spelling spelling = Spelling::kJson);

// Every string in every valid spelling, quotation marks included. JSON: raw characters, short escapes, \uXXXX in either
// case and surrogate pairs, but no lone surrogates. Python, in the quotation marks of `spelling`: raw characters except
// control characters, the escapes \\ \' \" \n \r \t, and \xhh, \uXXXX and \UXXXXXXXX in either case, but no surrogates.
// kStringBoundary is the state between two characters. REQUIRES: not kRaw.
absl::StatusOr<Dfa> StringDfa(Spelling spelling, Budget& budget);
inline constexpr int32_t kStringBoundary = 1;

// Facts about each state of an automaton over quoted strings in canonical spelling. between: 1 if the state is between
// two characters. finish: the fewest characters until the string can end, including a character that has begun.
// REQUIRES: not kRaw.
struct CharacterCounts {
  std::vector<uint8_t> between;
  std::vector<uint32_t> finish;
};
CharacterCounts CountCharacters(const Dfa& quoted, Spelling spelling);

// Adds optional white space, as between two JSON tokens: nothing, one space, or one line feed and up to kMaxIndent
// spaces. Returns the state after it.
inline constexpr int kMaxIndent = 32;
int32_t AddWhitespace(Nfa& nfa, int32_t from);

}  // namespace ingot::grammar
