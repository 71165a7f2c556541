// Language mixing, a process reward: a call of the policy that writes in a different script from its task pays at its
// own turn. Forge (MiniMax, section 4.2) names the target, without a number.
//
//   value of a call = -min(1, 10 * s) / (the policy's calls)   if s > allowed, else 0
//
// s: the share of foreign letters (scripts.h) in the call's content and reasoning, without code, TeX, URLs and JSON. The
// expected scripts come from `language`, or else from the strings of the task. A task without letters expects nothing.
// The term does not see mixing within one script, such as English with Spanish.
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
