// What a Split pre-tokenizer, a Replace or a ByteLevel looks for in a text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/regex.h"

namespace ingot::text {

// Immutable, thread safe.
class SplitPattern {
 public:
  virtual ~SplitPattern() = default;
  // The first match at or after `from`; false if there is none. REQUIRES: valid UTF-8, `from` at a character's start.
  virtual bool Find(std::string_view text, size_t from, Regex::Match* match) const = 0;
};

std::shared_ptr<const SplitPattern> LiteralPattern(std::string literal);
// A regular expression; those of well-known tokenizers, recognised by their text, are matched by hand-written code that
// gives the same matches many times faster. Errors as Regex::Compile.
absl::StatusOr<std::shared_ptr<const SplitPattern>> RegexPattern(std::string_view pattern);
// The hand-written matcher of a regular expression; nullptr if there is none.
std::shared_ptr<const SplitPattern> KnownPattern(std::string_view pattern);
// The texts that KnownPattern knows, for tests.
const std::vector<std::string_view>& KnownPatternTexts();

// Of GPT-2, which ByteLevel applies with use_regex.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// All matches in order, as Rust's find_iter gives them: an empty one right after another is skipped. An empty text has
// none.
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
