#include "reward/terms/parl.h"

#include <algorithm>

#include "base/config.h"
#include "reward/task_field.h"
#include "reward/terms/stages.h"

namespace ingot::reward {

void Bind(base::Schema& schema, ParlParallelOptions& o) {
  schema.Field("cap", &o.cap, "number of parallel sub-agents for the full reward", base::AtLeast(1));
}

absl::StatusOr<TermResult> ParlParallelTerm::Of(const EpisodeFacts& episode) const {
  INGOT_ASSIGN_OR_RETURN(const std::vector<Stage> stages, StagesOf(episode));
  int64_t widest = 0;
  for (const Stage& stage : stages) widest = std::max(widest, stage.working());
  TermResult result;
  result.value = std::min(1.0, static_cast<double>(widest) / options_.cap);
  result.measures["subagents"] = static_cast<double>(widest);
  return result;
}

absl::StatusOr<TermResult> ParlFinishTerm::Of(const EpisodeFacts& episode) const {
  INGOT_ASSIGN_OR_RETURN(const std::vector<Stage> stages, StagesOf(episode));
  double worked = 0;
  for (const Stage& stage : stages) worked += static_cast<double>(stage.working());
  const double assigned = episode.Signal("subagents/assigned"), finished = episode.Signal("subagents/finished");
  if (finished < 0 || finished > assigned) {
    return absl::InvalidArgumentError(absl::StrCat("signal 'subagents/finished' is ", finished,
                                                   ": it must be from 0 to 'subagents/assigned' (", assigned, ")"));
  }
  TermResult result;
  if (assigned > 0) result.value = std::min(finished, worked) / assigned;
  return result;
}

absl::Status CriticalStepsOptions::Validate() const {
  if (budget > 0 || !field.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("critical_steps needs a budget, or a task field with one");
}

void Bind(base::Schema& schema, CriticalStepsOptions& o) {
  schema.Field("budget", &o.budget, "budget for tasks that do not set one; 0: a task without a budget is an error",
               base::NotNegative());
  schema.Field("field", &o.field, "task field with the task's own budget");
}

absl::StatusOr<int64_t> CriticalStepsTerm::BudgetOf(const v1::Task& task) const {
  INGOT_ASSIGN_OR_RETURN(const auto own, TaskField(task, options_.field));
  if (!own.has_value() && options_.budget > 0) return options_.budget;
  if (own.has_value() && own->is_int64() && own->get_int64() > 0) return own->get_int64();
  return absl::FailedPreconditionError(absl::StrCat("task '", task.task_id(),
                                                    "' needs an integer above 0 in its field '", options_.field,
                                                    "', or the term a critical_steps.budget"));
}

absl::StatusOr<TermResult> CriticalStepsTerm::Of(const EpisodeFacts& episode) const {
  INGOT_ASSIGN_OR_RETURN(const int64_t budget, BudgetOf(episode.record().task()));
  INGOT_ASSIGN_OR_RETURN(const std::vector<Stage> stages, StagesOf(episode));
  int64_t steps = 0;
  for (const Stage& stage : stages) {
    steps += stage.main + (stage.sub.empty() ? 0 : *std::max_element(stage.sub.begin(), stage.sub.end()));
  }
  TermResult result;
  result.measures["critical_steps"] = static_cast<double>(steps);
  if (steps > budget) {
    result.value = -std::max(0.0, episode.outcome());
    result.detail = absl::StrCat(steps, " critical steps, budget ", budget);
  }
  return result;
}

}  // namespace ingot::reward
