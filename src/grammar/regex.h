// Compiles JSON Schema's `pattern`, a subset of ECMA-262 regular expressions, to an automaton over the content of a
// JSON string in canonical spelling, or over plain UTF-8 (grammar/chars.h).
//
// A pattern matches anywhere in the string unless it is anchored. Supported:
// - characters, the escapes \t \n \v \f \r \0 \xhh \uhhhh \u{h..}, and escaped punctuation
// - `.`, classes with ranges and negation (a hyphen next to \w or a similar class is literal), \d \D \w \W \s \S
// - groups, capturing or not, and alternation
// - the quantifiers * + ? {n} {n,} {n,m}, greedy or lazy
// - the anchors ^ and $
//
// Not supported: lookaround, back-references, \b \B, \p{..}, \c, mode flags, and counts above kMaxRepeat.
#pragma once

#include <string_view>

#include "grammar/chars.h"
#include "grammar/dfa.h"

namespace ingot::grammar {

inline constexpr int kMaxRepeat = 1000;

// Returns an automaton for the strings that match `pattern`, without quotation marks. Returns INVALID_ARGUMENT, with
// the invalid or unsupported construct and its position.
absl::StatusOr<Dfa> PatternDfa(std::string_view pattern, Budget& budget, Spelling spelling = Spelling::kJson);

// Returns the same errors as PatternDfa without building an automaton, but does not detect overly complex patterns.
absl::Status CheckPattern(std::string_view pattern);

// Returns an automaton for strings of `min` to `max` characters (UINT32_MAX = no limit), without quotation marks.
absl::StatusOr<Dfa> LengthDfa(uint32_t min, uint32_t max, Budget& budget, Spelling spelling = Spelling::kJson);

}  // namespace ingot::grammar
