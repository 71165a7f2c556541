// The nonlinear length penalty of Composer 2 (arXiv 2603.24477, section 4.2). An episode pays for its effort x, and
// pays more for the first thousands of tokens than for later tokens. So the policy answers easy tasks quickly and
// thinks hard tasks through.
//
//   value = -C(x)      C(x) = ((1 + k x)^(1-q) - 1) / (k (1-q));  q = 1: log(1 + k x) / k
//   x = (weighted sum of thinking, tool-call, tool-output and final tokens) / 1000
//       + call_weight * tool calls + turn_weight * turns
//
// The source does not publish k, q or the weights. An empty answer is the cheapest, so a wrong answer pays as much as
// the most expensive episode of its group (our addition; `charge_wrong: own` is the published formula).
//
// A call's sampled tokens are split between thinking, tool calls and final text by their bytes in the delivered
// message. Tool output is what a prompt adds to its parent call's prompt; a call without a parent adds none.
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

// C(x). REQUIRES: x >= 0, k > 0.
double EffortCost(double x, double k, double q);

class EffortTerm final : public RewardTerm {
 public:
  explicit EffortTerm(const EffortOptions& options) : options_(options) {}
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const GroupFacts& group) const override;

 private:
  double EffortOf(const EpisodeFacts& episode) const;  // x
  EffortOptions options_;
};

}  // namespace ingot::reward
