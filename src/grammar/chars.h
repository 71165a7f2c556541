// Characters as bytes: UTF-8, and the spelling of strings in JSON and in Python.
//
// Canonical spelling: each character in one way, raw where JSON allows that, else the short escape (\" \\ \b \f \n \r
// \t), else \u00xx in lower case. In Python: raw but for the quotation mark around it, backslashes and control
// characters; those as \' or \", \\ \n \r \t, else \xhh in lower case. Surrogates are no characters.
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
// Ascending, disjoint, within Unicode's scalar values.
using CodePoints = std::vector<Interval>;

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// Sorts, joins and takes surrogates out.
CodePoints Normalize(const CodePoints& set);
CodePoints Complement(const CodePoints& set);
CodePoints AllCodePoints();

// How the characters of a text are written.
enum class Spelling {
  kJson,          // as the content of a JSON string, in canonical spelling
  kRaw,           // as they are, in UTF-8
  kSingleQuoted,  // as the content of a Python string between '', in canonical spelling
  kDoubleQuoted,  // the same between ""
};
// The mark around a string that is spelled so. REQUIRES: not kRaw.
char QuotationMark(Spelling spelling);
// To tell leaves apart.
std::string_view SpellingName(Spelling spelling);

// Edges from `from` to `to` that take one character of the set: as UTF-8, or as `spelling` says.
void AddUtf8(Nfa& nfa, int32_t from, int32_t to, const CodePoints& set);
void AddCharacter(Nfa& nfa, int32_t from, int32_t to, const CodePoints& set, Spelling spelling);

// `text` (valid UTF-8) as a string in canonical spelling, with quotation marks. REQUIRES: not kRaw.
std::string QuoteText(std::string_view text, Spelling spelling = Spelling::kJson);

// Any string in any spelling. JSON: raw characters, short escapes, \uXXXX in either case, surrogate pairs but no lone
// surrogates. Python, in the marks of `spelling`: raw characters but control characters, the escapes \\ \' \" \n \r \t,
// \xhh, \uXXXX and \UXXXXXXXX in either case, no surrogates. The state between two characters is kStringBoundary.
// REQUIRES: not kRaw.
absl::StatusOr<Dfa> StringDfa(Spelling spelling, Budget& budget);
inline constexpr int32_t kStringBoundary = 1;

// Of each state of an automaton over strings in canonical spelling, marks included: whether it is between two
// characters, and how many have to come at least until the string can end (one begun counts). REQUIRES: not kRaw.
struct CharacterCounts {
  std::vector<uint8_t> between;
  std::vector<uint32_t> finish;
};
CharacterCounts CountCharacters(const Dfa& quoted, Spelling spelling);

// Optional white space, as everywhere between two JSON tokens that take any: nothing, one space, or one line feed and
// up to kMaxIndent spaces. Returns the state behind it.
inline constexpr int kMaxIndent = 32;
int32_t AddWhitespace(Nfa& nfa, int32_t from);

// Characters of valid UTF-8.
size_t CountCodePoints(std::string_view text);
// The code points of `text`; false if it is not valid UTF-8.
bool DecodeUtf8(std::string_view text, std::vector<uint32_t>* out);

}  // namespace ingot::grammar
