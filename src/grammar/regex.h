// The `pattern` of a JSON Schema: a subset of ECMA-262's regular expressions, as an automaton over the content of a
// JSON string in canonical spelling, or over text as it is (grammar/chars.h).
//
// As there, a pattern matches anywhere unless anchored. Supported: characters and escapes (\t \n \v \f \r \0 \xhh
// \uhhhh
// \u{h..} and escaped punctuation), `.`, classes with ranges and negation (a hyphen beside \w and its like is itself),
// \d \D \w \W \s \S, groups of all capturing kinds, alternation, * + ? {n} {n,} {n,m} (lazy ones too), ^ and $. Not:
// look-around, back-references, \b \B, \p{..},
// \c, mode flags, and counts beyond kMaxRepeat.
#pragma once

#include <string_view>

#include "grammar/chars.h"
#include "grammar/dfa.h"

namespace ingot::grammar {

inline constexpr int kMaxRepeat = 1000;

// The strings that `pattern` matches, without quotation marks. INVALID_ARGUMENT says what is wrong or not supported,
// and where (byte).
absl::StatusOr<Dfa> PatternDfa(std::string_view pattern, Budget& budget, Spelling spelling = Spelling::kJson);

// The same errors, but for what is too complex; without an automaton.
absl::Status CheckPattern(std::string_view pattern);

// Strings of `min` to `max` characters (UINT32_MAX: no limit), without quotation marks.
absl::StatusOr<Dfa> LengthDfa(uint32_t min, uint32_t max, Budget& budget, Spelling spelling = Spelling::kJson);

}  // namespace ingot::grammar
