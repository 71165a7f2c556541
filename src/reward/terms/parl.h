// Implements Kimi K2.5's parallel-agent reinforcement learning (arXiv 2602.02276, section 3). Its reward is
//
//   lambda1 * r_parallel + lambda2 * r_finish + r_perf
//
// where lambda1 and lambda2 are annealed to 0 (by the terms' weights and schedules) and r_perf is the outcome. The
// report gives no formulas for r_parallel and r_finish, so these are ours. Both use the fact `stages` (stages.h), so a
// sub-agent counts only if it made a model call.
//
//   r_parallel = min(1, n / cap)        n: sub-agents in the episode's widest stage
//   r_finish   = finished / assigned    sub-agents, from signals subagents/finished and subagents/assigned; 0 if none
//
// Only the widest stage counts, so sub-agents that run one after another do not count as parallel. `finished` is
// limited to the number of sub-agents that worked. It is divided by the number of assigned sub-agents, so empty
// assignments lower the value.
//
// The same section limits critical steps, defined as the sum of main + max(sub) over all stages. An episode over the
// budget gets no r_perf, so the term cancels its outcome:
//
//   value = -max(0, outcome) if critical steps > budget, else 0
#pragma once

#include <string>

#include "reward/term.h"

namespace ingot::reward {

struct ParlParallelOptions {
  int32_t cap = 4;
};

void Bind(base::Schema& schema, ParlParallelOptions& options);

class ParlParallelTerm final : public EpisodeTerm {
 public:
  explicit ParlParallelTerm(const ParlParallelOptions& options) : options_(options) {}

 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;

 private:
  ParlParallelOptions options_;
};

class ParlFinishTerm final : public EpisodeTerm {
 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;
};

struct CriticalStepsOptions {
  int64_t budget = 0;
  std::string field = "critical_steps";  // dotted path

  absl::Status Validate() const;
};

void Bind(base::Schema& schema, CriticalStepsOptions& options);

class CriticalStepsTerm final : public EpisodeTerm {
 public:
  explicit CriticalStepsTerm(const CriticalStepsOptions& options) : options_(options) {}

 protected:
  absl::Status CheckTask(const v1::Task& task) const override { return BudgetOf(task).status(); }
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;

 private:
  absl::StatusOr<int64_t> BudgetOf(const v1::Task& task) const;
  CriticalStepsOptions options_;
};

}  // namespace ingot::reward
