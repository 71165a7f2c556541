// Defines the patterns used by Split and ByteLevel pre-tokenizers and Replace normalizers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/unicode/regex.h"

namespace ingot::text {

// Immutable and thread safe.
class SplitPattern {
 public:
  virtual ~SplitPattern() = default;
  // Finds the first match at or after `from`. Returns false if there is none. REQUIRES: the text is valid UTF-8, and
  // `from` is at the first byte of a character.
  virtual bool Find(std::string_view text, size_t from, Regex::Match* match) const = 0;
};

std::shared_ptr<const SplitPattern> LiteralPattern(std::string literal);
// Returns a pattern for a regular expression. For well-known tokenizers' patterns, returns a hand-written matcher that
// finds the same matches many times faster. Returns the errors of Regex::Compile.
absl::StatusOr<std::shared_ptr<const SplitPattern>> RegexPattern(std::string_view pattern);
// Returns the hand-written matcher for a regular expression, or nullptr if there is none.
std::shared_ptr<const SplitPattern> KnownPattern(std::string_view pattern);

// GPT-2's pattern, which ByteLevel applies with use_regex.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Iterates over all matches in order, like Rust's find_iter. Skips empty matches directly after another match. An empty
// string has no matches.
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
