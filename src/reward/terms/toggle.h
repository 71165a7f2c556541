// Implements Toggle from Kimi K2.5 (arXiv 2602.02276, section 4.4.2). Training alternates between phases where a
// correct answer must also stay within the task's token budget and phases without a budget. The term cancels the
// outcome of answers over the budget. Together with an outcome term of the same weight, this gives the paper's
// reward.
//
//   value = -max(0, outcome_i)   if mean outcome of the group >= lambda and len_i > budget(task)
//           0                    otherwise
//
// budget(task) is the rho-th percentile (nearest rank) of the lengths of the task's correct answers. It is estimated
// once, from the task's first group with at least `min_correct` correct answers. That group's grades store it as the
// measure "budget", and later groups read it from GroupFacts.history.
//
// The paper does not give lambda, rho, or the length of a phase. The term's schedule sets the phases (for example
// `phase: 0, phase_steps: 20`).
#pragma once

#include <optional>
#include <string>

#include "reward/term.h"

namespace ingot::reward {

struct ToggleOptions {
  double lambda = 0.5;
  double rho = 70;
  int32_t min_correct = 1;
  double correct_above = 0.5;
};

void Bind(base::Schema& schema, ToggleOptions& options);

class ToggleTerm final : public RewardTerm {
 public:
  // `name` is the term's name and the key of its measures in the history.
  ToggleTerm(const ToggleOptions& options, std::string name) : options_(options), name_(std::move(name)) {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;
  bool uses_history() const override { return true; }

 private:
  // Returns nullopt if no group has had enough correct answers.
  std::optional<double> BudgetOf(const GroupFacts& group) const;
  ToggleOptions options_;
  std::string name_;
};

}  // namespace ingot::reward
