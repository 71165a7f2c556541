// The `pattern` of a JSON Schema: a subset of ECMA-262's regular expressions, as an automaton over the content of a
// JSON string in canonical spelling, or over plain UTF-8 (grammar/chars.h).
//
// A pattern matches anywhere in the string unless it is anchored. Supported:
// - characters, and the escapes \t \n \v \f \r \0 \xhh \uhhhh \u{h..} and of punctuation;
// - `.`, classes with ranges and negation (a hyphen next to \w or a similar class means itself), \d \D \w \W \s \S;
// - groups, capturing or not, and alternation;
// - the quantifiers * + ? {n} {n,} {n,m}, also lazy;
// - the anchors ^ and $.
//
// Not supported: look-around, back-references, \b \B, \p{..}, \c, mode flags, and counts beyond kMaxRepeat.
#pragma once

#include <string_view>

#include "grammar/chars.h"
#include "grammar/dfa.h"

namespace ingot::grammar {

inline constexpr int kMaxRepeat = 1000;

// The strings that `pattern` matches, without quotation marks. INVALID_ARGUMENT says which construct is wrong or
// unsupported, and at which character.
absl::StatusOr<Dfa> PatternDfa(std::string_view pattern, Budget& budget, Spelling spelling = Spelling::kJson);

// The same errors without building an automaton, except for patterns that are too complex.
absl::Status CheckPattern(std::string_view pattern);

// Strings of `min` to `max` characters (UINT32_MAX: no limit), without quotation marks.
absl::StatusOr<Dfa> LengthDfa(uint32_t min, uint32_t max, Budget& budget, Spelling spelling = Spelling::kJson);

}  // namespace ingot::grammar
