// A regular expression of tokenizer.json: Oniguruma's Ruby syntax over Unicode 16.0, run by PCRE2 with its JIT. The
// pattern is translated, so that sets (\s, \w, \p{..}, && in classes), anchors and quantifiers mean the same as in
// Oniguruma. Immutable, thread safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::text {

class Regex {
 public:
  // INVALID_ARGUMENT: not a regular expression. UNIMPLEMENTED names the unsupported construct.
  static absl::StatusOr<std::shared_ptr<const Regex>> Compile(std::string_view pattern);
  ~Regex();

  struct Match {
    size_t begin;
    size_t end;
  };
  // The first match at or after `from`; looks back and ahead within `text` only. A match beyond PCRE2's limits (ten
  // million steps from one place) counts as no match. REQUIRES: `text` is valid UTF-8.
  bool Find(std::string_view text, size_t from, Match* match) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  const std::unique_ptr<Code> code_;
};

// Translates an Oniguruma pattern to PCRE2 with the options UTF, NEWLINE=LF and MULTILINE. Public for tests.
absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern);

}  // namespace ingot::text
