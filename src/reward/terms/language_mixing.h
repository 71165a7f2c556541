// Penalizes language mixing as a process reward: a policy call that uses a different script than its task is penalized
// at its own turn. Forge (MiniMax, section 4.2) describes this goal without giving a number.
//
//   value of a call = -min(1, 10 * s) / (number of policy calls)   if s > allowed, else 0
//
// s is the share of foreign letters (scripts.h) in the call's content and reasoning, excluding code, TeX, URLs, and
// JSON. The expected scripts are determined by `language`, or else by the strings in the task. A task without letters
// allows all scripts. The term cannot detect mixing within one script, such as English with Spanish.
#pragma once

#include <string>

#include "reward/term.h"

namespace ingot::reward {

struct LanguageMixingOptions {
  std::string language;
  double allowed = 0.02;

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, LanguageMixingOptions& options);

class LanguageMixingTerm final : public EpisodeTerm {
 public:
  explicit LanguageMixingTerm(const LanguageMixingOptions& options) : options_(options) {}

 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;

 private:
  LanguageMixingOptions options_;
};

}  // namespace ingot::reward
