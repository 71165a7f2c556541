// Rewards fast completion: among a group's correct episodes, faster ones gain and slower ones lose. Forge (MiniMax,
// section 4.2) has such a reward but gives no formula. This term uses the length term's formula with seconds, excluding
// time spent waiting for the engine.
//
//   correct, time known:  0.5 - (seconds_i - min) / (max - min)      otherwise, or max = min:  0
#pragma once

#include "reward/term.h"

namespace ingot::reward {

struct CompletionTimeOptions {
  double correct_above = 0.5;
};

void Bind(base::Schema& schema, CompletionTimeOptions& options);

class CompletionTimeTerm final : public RewardTerm {
 public:
  explicit CompletionTimeTerm(const CompletionTimeOptions& options) : options_(options) {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;

 private:
  CompletionTimeOptions options_;
};

}  // namespace ingot::reward
