// Compiles and runs the regular expressions in tokenizer.json, which use Oniguruma's Ruby syntax with Unicode 16.0.
// Uses PCRE2 with its JIT. The pattern is translated so that sets (\s, \w, \p{..}, && in classes), anchors, and
// quantifiers have the same meaning as in Oniguruma. Immutable and thread safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::text {

class Regex {
 public:
  // Returns INVALID_ARGUMENT if the pattern is not a regular expression, or UNIMPLEMENTED, naming the unsupported
  // construct.
  static absl::StatusOr<std::shared_ptr<const Regex>> Compile(std::string_view pattern);
  ~Regex();

  struct Match {
    size_t begin;
    size_t end;
  };
  // Finds the first match at or after `from`. Lookbehind and lookahead are limited to `text`. A match that exceeds
  // PCRE2's limits (ten million steps from one position) counts as no match. REQUIRES: `text` is valid UTF-8.
  bool Find(std::string_view text, size_t from, Match* match) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  const std::unique_ptr<Code> code_;
};

// Translates an Oniguruma pattern to PCRE2 with the options UTF, NEWLINE=LF, and MULTILINE. Public for tests.
absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern);

}  // namespace ingot::text
