// Completion time: among the correct episodes of a group, faster episodes gain and slower episodes lose. Forge
// (MiniMax, section 4.2) rewards it without printing a formula. We use the length term's formula, over seconds without
// the waits for the engine.
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
