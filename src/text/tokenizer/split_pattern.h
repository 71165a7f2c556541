// SplitPattern: the pattern that a Split or ByteLevel pre-tokenizer, or a Replace, searches for.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/unicode/regex.h"

namespace ingot::text {

// Immutable, thread safe.
class SplitPattern {
 public:
  virtual ~SplitPattern() = default;
  // The first match at or after `from`; false if there is none. REQUIRES: valid UTF-8, `from` at a character's first
  // byte.
  virtual bool Find(std::string_view text, size_t from, Regex::Match* match) const = 0;
};

std::shared_ptr<const SplitPattern> LiteralPattern(std::string literal);
// A regular expression. The patterns of well-known tokenizers, recognised by their text, have hand-written matchers
// with the same matches that are many times faster. Errors as in Regex::Compile.
absl::StatusOr<std::shared_ptr<const SplitPattern>> RegexPattern(std::string_view pattern);
// The hand-written matcher of a regular expression; nullptr if there is none.
std::shared_ptr<const SplitPattern> KnownPattern(std::string_view pattern);

// GPT-2's pattern; ByteLevel applies it with use_regex.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Iterates over all matches in order, like Rust's find_iter: an empty match directly after another match is skipped. An
// empty text has no match.
class MatchIterator {
 public:
  MatchIterator(const SplitPattern& pattern, std::string_view text) : pattern_(pattern), text_(text) {}
  bool Next(Regex::Match* match);

 private:
  const SplitPattern& pattern_;
  const std::string_view text_;
  size_t from_ = 0;
  size_t last_end_ = std::string_view::npos;
};

}  // namespace ingot::text
