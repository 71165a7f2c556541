// Completion time: among the correct episodes of a group, faster ones gain and slower ones lose. Forge (MiniMax, section 4.2)
// rewards it without printing a formula. Ours is that of the length term, over seconds without the waits for the engine.
//
//   correct, time known:  0.5 - (seconds_i - min) / (max - min)      otherwise, or max = min:  0
#pragma once

#include "reward/term.h"

namespace ingot::reward {

struct CompletionTimeOptions {
  double correct_above = 0.5;  // an outcome above it counts as correct
  bool operator==(const CompletionTimeOptions&) const = default;
};

class CompletionTimeTerm final : public RewardTerm {
 public:
  explicit CompletionTimeTerm(const CompletionTimeOptions& options) : options_(options) {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;

 private:
  CompletionTimeOptions options_;
};

}  // namespace ingot::reward
