// Penalizes repetition. Kimi k1.5 (arXiv 2501.12599, section 2.6.2) detects, truncates, and penalizes repetition, but
// gives no formula. Ours is:
//
//   a call was stopped for repeating itself (FINISH_REPETITION):  -1
//   otherwise:  -max(0, d - allowed) / (1 - allowed)
//
// where d is the share of n-grams in the episode's sampled ids that occurred earlier in the same call.
#pragma once

#include "reward/term.h"

namespace ingot::reward {

struct RepetitionOptions {
  int32_t ngram = 8;  // byte-level models need longer n-grams, such as 32
  double allowed = 0.2;
};

void Bind(base::Schema& schema, RepetitionOptions& options);

class RepetitionTerm final : public EpisodeTerm {
 public:
  explicit RepetitionTerm(const RepetitionOptions& options) : options_(options) {}

 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;

 private:
  RepetitionOptions options_;
};

}  // namespace ingot::reward
