#include "scheduler/options.h"

#include "base/config.h"

namespace ingot::scheduler {
namespace {

// Practical upper limits, which no run reaches.
constexpr double kMaxSteps = 1LL << 40;
constexpr double kMaxGroups = 1 << 30;
constexpr double kMaxSeconds = 1e8;

}  // namespace

void Bind(base::Schema& schema, SamplingOptions& o) {
  schema.Choice(
      "order", &o.order, {"uniform", "curriculum", "prioritized"},
      "uniform: shuffled passes; curriculum: from the easiest tasks to all; prioritized: by 1 - success rate");
  schema.Field("domains", &o.domains, "weight of each of the tasks' domains; empty: every task weighs the same",
               base::InRange(0, 1e9));
  schema.Field("once", &o.once, "no task is used twice in the run, through restarts");
  schema.Field("difficulty_field", &o.difficulty_field,
               "curriculum: the task's number with its difficulty; pass_rate_field is used if no task has it");
  schema.Field("curriculum_start", &o.curriculum_start, "curriculum: share of the tasks, easiest first, at the start",
               base::InRange(1e-6, 1));
  schema.Field("curriculum_until", &o.curriculum_until, "curriculum: share of the steps after which all tasks are in",
               base::InRange(1e-6, 1));
  schema.Field("pass_rate_field", &o.pass_rate_field,
               "the task's number with its success rate before the run, 0 to 1; empty: not known");
  schema.Field("warm_up", &o.warm_up, "share of the steps in which hard_below does not count", base::InRange(0, 1));
  schema.Field("hard_below", &o.hard_below, "only tasks with a success rate below it, where there are any; 0: all",
               base::InRange(0, 1));
  schema.Field("retire_after", &o.retire_after,
               "groups of a task in a row that all succeeded or all failed, after which it rests; 0: never",
               base::InRange(0, 1 << 20));
  schema.Field("retire_groups", &o.retire_groups, "ended groups of the run for which it rests",
               base::InRange(0, kMaxSteps));
  schema.Field("success_above", &o.success_above, "an episode succeeded if its outcome is above it");
}

void Bind(base::Schema& schema, SchedulerOptions& o) {
  schema.Field("total_steps", &o.total_steps, "optimizer steps of the run", base::InRange(0, kMaxSteps));
  schema.Field("group_size", &o.group_size, "samples per task", base::InRange(1, SchedulerOptions::kMaxGroupSize));
  BindWindow(schema, &o.groups_per_step, &o.max_staleness, &o.window_fraction, &o.order);
  schema.Field(
      "drop_zero_variance", &o.drop_zero_variance,
      "drop groups whose rewards are all equal, and admit others in their place (DAPO's dynamic sampling, under "
      "every trainer.preset)");
  schema.Field("max_drops_per_batch", &o.max_drops_per_batch,
               "drops since the last batch after which groups of equal rewards are trained anyway; 0: no limit but "
               "scheduler.give_up_equal",
               base::InRange(0, kMaxGroups));
  schema.Field("group_deadline_s", &o.group_deadline_seconds,
               "seconds that a group may take while its samples run or can be handed out; past it the group fails",
               base::InRange(1e-3, kMaxSeconds));
  schema.Field("max_attempts", &o.max_attempts, "failed attempts of one sample before its group fails",
               base::InRange(1, 1 << 20));
  schema.Field("max_infrastructure_failures", &o.max_infrastructure_failures,
               "the same for failures that are not the agent's fault: sandbox, set-up, verifier",
               base::InRange(1, 1 << 20));
  schema.Field("give_up_s", &o.give_up_seconds,
               "seconds in which every group fails (at least as many groups as may be open), after which the run ends "
               "with the last reason; 0: never",
               base::InRange(0, kMaxSeconds));
  schema.Field("give_up_unstarted", &o.give_up_unstarted,
               "episodes in a row that fail in set-up (no sandbox, set-up, task, verifier, or no agent called the "
               "model) after which the run ends with the last reason; once an episode has finished, they must also "
               "fail for scheduler.give_up_s; at least 3 for each of agents.concurrency; 0: never; no effect on "
               "outside agents",
               base::InRange(0, kMaxGroups));
  schema.Field("give_up_equal", &o.give_up_equal,
               "groups dropped in a row for equal rewards after which the run ends; 0: never; no effect with "
               "scheduler.max_drops_per_batch above 0",
               base::InRange(0, kMaxGroups));
  schema.Field("max_concurrent_episodes", &o.max_concurrent_episodes,
               "episodes running at a time, evaluation included; 0: no separate limit", base::InRange(0, kMaxGroups));
  schema.Field("retry_after_ms", &o.retry_after_ms, "wait that a 429 response asks for", base::InRange(1, 3'600'000));
  schema.Field("max_active_evals", &o.max_active_evals, "evaluations running at a time", base::InRange(1, 1 << 20));
  schema.Field("max_eval_episodes", &o.max_eval_episodes, "tasks times avg_n of one evaluation",
               base::InRange(1, kMaxSteps));
  schema.Section("sampling", o.sampling);
}

void BindStorage(base::Schema& schema, SchedulerOptions& o) {
  schema.Field("keep_steps", &o.keep_steps,
               "newest trained steps whose trees stay, besides those that a checkpoint may replay; 0: all stay",
               base::InRange(0, kMaxSteps));
}

absl::Status SamplingOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  double sum = 0;
  for (const auto& [domain, weight] : domains) sum += weight;
  if (!domains.empty() && sum == 0) return absl::InvalidArgumentError("domains: every weight is 0");
  if (warm_up > 0 && hard_below == 0) {
    return absl::InvalidArgumentError("warm_up needs hard_below, the success rate of the tasks after it");
  }
  if (retire_after > 0 && retire_groups == 0) {
    return absl::InvalidArgumentError("retire_after needs retire_groups, for how long a task rests");
  }
  return absl::OkStatus();
}

absl::Status SchedulerOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this, BindStorage));
  if (branching.width != 0) {
    if (branching.at < 1 || branching.at > 1 << 20) {
      return absl::InvalidArgumentError(
          absl::StrCat("agents.branching.at is ", branching.at, ": with a width it must be in [1, ", 1 << 20, "]"));
    }
    if (branching.width < 2 || group_size % branching.width != 0) {
      return absl::InvalidArgumentError(absl::StrCat("agents.branching.width is ", branching.width,
                                                     ": a divisor of group_size ", group_size, ", 2 or more, or 0"));
    }
  } else if (branching.at != 0) {
    return absl::InvalidArgumentError("agents.branching.at needs agents.branching.width, the leaves of a trunk");
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(sampling.Validate(), "sampling"));
  if (keep_checkpoints < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("keep_checkpoints is ", keep_checkpoints, ": it must be at least 1"));
  }
  return absl::OkStatus();
}

}  // namespace ingot::scheduler
