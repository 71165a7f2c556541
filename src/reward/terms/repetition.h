// Repetition: Kimi k1.5 (arXiv 2501.12599, section 2.6.2) detects, cuts and penalises repeats, without a formula. Ours:
//
//   a call was halted for repeating itself (FINISH_REPETITION):  -1
//   otherwise:  -max(0, d - allowed) / (1 - allowed)
//
// d: of the n-grams of the episode's sampled ids, the share that occurred before in the same call.
#pragma once

#include "reward/term.h"

namespace ingot::reward {

struct RepetitionOptions {
  int32_t ngram = 8;  // a byte-level model needs longer n-grams, such as 32
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
