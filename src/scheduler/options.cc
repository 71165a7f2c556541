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
  schema.Choice("order", &o.order, {"uniform", "curriculum", "prioritized"},
                "order of training tasks: uniform: shuffled passes; curriculum: from the easiest tasks to all; "
                "prioritized: weighted by 1 - success rate");
  schema.Field("domains", &o.domains, "weight of each task domain; empty: all tasks have the same weight",
               base::InRange(0, 1e9));
  schema.Field("once", &o.once, "use each task at most once in the run, including after restarts");
  schema.Field("difficulty_field", &o.difficulty_field,
               "curriculum: task field with its difficulty, a number; if no task has it, pass_rate_field is used");
  schema.Field("curriculum_start", &o.curriculum_start, "curriculum: share of the tasks, easiest first, to start with",
               base::InRange(1e-6, 1));
  schema.Field("curriculum_until", &o.curriculum_until, "curriculum: share of the steps after which all tasks are used",
               base::InRange(1e-6, 1));
  schema.Field("pass_rate_field", &o.pass_rate_field,
               "task field with its success rate before the run, 0 to 1; empty: unknown");
  schema.Field("warm_up", &o.warm_up, "share of the steps, at the start, in which hard_below has no effect",
               base::InRange(0, 1));
  schema.Field("hard_below", &o.hard_below,
               "use only tasks with a success rate below this, if there are any; 0: all tasks", base::InRange(0, 1));
  schema.Field("retire_after", &o.retire_after,
               "pause a task after this many consecutive groups in which all samples succeeded or all failed; 0: never",
               base::InRange(0, 1 << 20));
  schema.Field("retire_groups", &o.retire_groups, "number of groups that must end before a paused task is used again",
               base::InRange(0, kMaxSteps));
  schema.Field("success_above", &o.success_above, "an episode succeeded if its outcome is above this");
}

void Bind(base::Schema& schema, SchedulerOptions& o) {
  schema.Field("total_steps", &o.total_steps, "number of optimizer steps", base::InRange(0, kMaxSteps));
  schema.Field("group_size", &o.group_size, "samples per task", base::InRange(1, SchedulerOptions::kMaxGroupSize));
  BindWindow(schema, &o.groups_per_step, &o.max_staleness, &o.window_fraction, &o.order);
  schema.Field("drop_zero_variance", &o.drop_zero_variance,
               "replace groups whose rewards are all equal (DAPO's dynamic sampling, with every trainer.preset)");
  schema.Field("max_drops_per_batch", &o.max_drops_per_batch,
               "maximum number of groups dropped per batch for equal rewards; further such groups are trained; 0: no "
               "limit except scheduler.give_up_equal",
               base::InRange(0, kMaxGroups));
  schema.Field("group_deadline_s", &o.group_deadline_seconds,
               "seconds that a group may take while its samples are running or waiting to run; after that it fails",
               base::InRange(1e-3, kMaxSeconds));
  schema.Field("max_attempts", &o.max_attempts, "failed attempts at one sample before its group fails",
               base::InRange(1, 1 << 20));
  schema.Field("max_infrastructure_failures", &o.max_infrastructure_failures,
               "same as max_attempts, for failures that are not the agent's fault: sandbox, setup, verifier",
               base::InRange(1, 1 << 20));
  schema.Field("give_up_s", &o.give_up_seconds,
               "end the run if every group fails for this many seconds, and at least as many groups fail as may be "
               "open; the error is the last failure; 0: never",
               base::InRange(0, kMaxSeconds));
  schema.Field(
      "give_up_unstarted", &o.give_up_unstarted,
      "end the run after this many consecutive episodes fail in setup (sandbox, setup commands, task, verifier, or an "
      "agent that never calls the model); the error is the last failure; once an episode has finished, they must also "
      "fail for scheduler.give_up_s; at least 3 x agents.concurrency; 0: never; no effect on external agents",
      base::InRange(0, kMaxGroups));
  schema.Field("give_up_equal", &o.give_up_equal,
               "end the run after this many consecutive groups are dropped for equal rewards; 0: never; no effect if "
               "scheduler.max_drops_per_batch is above 0",
               base::InRange(0, kMaxGroups));
  schema.Field("max_concurrent_episodes", &o.max_concurrent_episodes,
               "maximum number of episodes that run at the same time, including evaluations; 0: no separate limit",
               base::InRange(0, kMaxGroups));
  schema.Field("retry_after_ms", &o.retry_after_ms, "retry delay in 429 responses, in milliseconds",
               base::InRange(1, 3'600'000));
  schema.Field("max_active_evals", &o.max_active_evals, "maximum number of evaluations that run at the same time",
               base::InRange(1, 1 << 20));
  schema.Field("max_eval_episodes", &o.max_eval_episodes,
               "maximum number of episodes in one evaluation (tasks x avg_n)", base::InRange(1, kMaxSteps));
  schema.Section("sampling", o.sampling);
}

void BindStorage(base::Schema& schema, SchedulerOptions& o) {
  schema.Field("keep_steps", &o.keep_steps,
               "number of latest trained steps whose trees are kept, in addition to those that a checkpoint may "
               "replay; 0: keep all",
               base::InRange(0, kMaxSteps));
}

absl::Status SamplingOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  double sum = 0;
  for (const auto& [domain, weight] : domains) sum += weight;
  if (!domains.empty() && sum == 0)
    return absl::InvalidArgumentError("domains: every weight is 0, so there are no tasks: set one above 0");
  if (warm_up > 0 && hard_below == 0) {
    return absl::InvalidArgumentError(
        "warm_up needs hard_below, the success rate below which tasks are used after it: set hard_below, or remove "
        "warm_up");
  }
  if (retire_after > 0 && retire_groups == 0) {
    return absl::InvalidArgumentError(
        "retire_after needs retire_groups, the number of groups for which a task pauses: set it, or remove "
        "retire_after");
  }
  return absl::OkStatus();
}

absl::Status SchedulerOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this, BindStorage));
  if (branching.width != 0) {
    if (branching.at < 1 || branching.at > 1 << 20) {
      return absl::InvalidArgumentError(
          absl::StrCat("agents.branching.at is ", branching.at, ": with a width, it must be in [1, ", 1 << 20, "]"));
    }
    if (branching.width < 2 || group_size % branching.width != 0) {
      return absl::InvalidArgumentError(absl::StrCat("agents.branching.width is ", branching.width,
                                                     ": it must be 0, or at least 2 and a divisor of group_size ",
                                                     group_size));
    }
  } else if (branching.at != 0) {
    return absl::InvalidArgumentError(
        "agents.branching.at needs agents.branching.width, the number of leaves per trunk");
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(sampling.Validate(), "sampling"));
  if (keep_checkpoints < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("keep_checkpoints is ", keep_checkpoints, ": it must be at least 1"));
  }
  return absl::OkStatus();
}

}  // namespace ingot::scheduler
