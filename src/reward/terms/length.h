// Implements Kimi k1.5's length reward (arXiv 2501.12599, section 2.3.3). Within a group, shorter answers gain and
// longer ones lose, and wrong answers never gain.
//
//   lambda_i = 0.5 - (len_i - min) / (max - min)      len: tokens that the policy sampled in the episode
//   correct:  lambda_i        wrong:  min(0, lambda_i)        max = min:  0
#pragma once

#include "reward/term.h"

namespace ingot::reward {

struct LengthOptions {
  double correct_above = 0.5;
};

void Bind(base::Schema& schema, LengthOptions& options);

class LengthTerm final : public RewardTerm {
 public:
  explicit LengthTerm(const LengthOptions& options) : options_(options) {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;

 private:
  LengthOptions options_;
};

}  // namespace ingot::reward
