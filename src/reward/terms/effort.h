// Implements Composer 2's nonlinear length penalty (arXiv 2603.24477, section 4.2). An episode is penalized for its
// effort x. The first few thousand tokens cost more than later ones, so the policy learns to answer easy tasks quickly
// and to think longer about hard ones.
//
//   value = -C(x)      C(x) = ((1 + k x)^(1-q) - 1) / (k (1-q));  q = 1: log(1 + k x) / k
//   x = (weighted sum of thinking, tool-call, tool-output, and final tokens) / 1000
//       + call_weight * tool calls + turn_weight * turns
//
// The paper does not publish k, q, or the weights. Because an empty answer would be the cheapest, a wrong answer costs
// as much as the group's most expensive episode (our addition; `charge_wrong: own` is the published formula).
//
// A call's sampled tokens are split into thinking, tool calls, and final text according to where their bytes appear in
// the delivered message. Tool output is the part of a prompt that was added to the parent call's prompt. A call without
// a parent adds nothing.
#pragma once

#include <string>

#include "reward/term.h"

namespace ingot::reward {

struct EffortOptions {
  double k = 1;
  double q = 0.5;
  double thinking = 1;
  double tool_call = 1;
  double tool_output = 1;
  double final_text = 1;
  double call_weight = 0;
  double turn_weight = 0;
  double correct_above = 0.5;
  std::string charge_wrong = "most";
};

void Bind(base::Schema& schema, EffortOptions& options);

// Returns C(x). REQUIRES: x >= 0, k > 0.
double EffortCost(double x, double k, double q);

class EffortTerm final : public RewardTerm {
 public:
  explicit EffortTerm(const EffortOptions& options) : options_(options) {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;

 private:
  double EffortOf(const EpisodeFacts& episode) const;  // returns x
  EffortOptions options_;
};

}  // namespace ingot::reward
