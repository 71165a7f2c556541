// Regular expressions as tokenizer.json has them: Oniguruma's Ruby syntax over Unicode 16.0, run by PCRE2 with its JIT.
// The pattern is translated, so that the sets (\s, \w, \p{..}, && in classes), the anchors and the quantifiers mean
// what they mean to Oniguruma. Immutable, thread safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::text {

class Regex {
 public:
  // INVALID_ARGUMENT: not a regular expression; UNIMPLEMENTED names the construct that is not supported.
  static absl::StatusOr<std::shared_ptr<const Regex>> Compile(std::string_view pattern);
  ~Regex();

  struct Match {
    size_t begin;
    size_t end;
  };
  // The first match at or after `from`, looking back and ahead within `text` alone. A match that would exceed PCRE2's
  // limits (ten million steps from one place) counts as none. REQUIRES: `text` is valid UTF-8.
  bool Find(std::string_view text, size_t from, Match* match) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  const std::unique_ptr<Code> code_;
};

// The translation alone, for tests: an Oniguruma pattern as PCRE2 (UTF, NEWLINE=LF, MULTILINE) must be given it.
absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern);

}  // namespace ingot::text
