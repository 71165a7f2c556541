// The scheduler's options; the app binds them to the configuration's keys.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "scheduler/policy.h"

namespace ingot::scheduler {

// Which tasks new groups get (scheduler/task_sampler.h); `scheduler.sampling` in the YAML.
struct SamplingOptions {
  // uniform      shuffled passes over the list
  // curriculum   from the easiest tasks to all of them, by each task's `difficulty_field` or `pass_rate_field`
  // prioritized  in proportion to 1 - success rate
  std::string order = "uniform";
  std::map<std::string, double> domains = {};   // weight of each domain, >= 0; empty = every task weighs the same
  bool once = false;                            // no task is used twice in the run, even across restarts
  std::string difficulty_field = "difficulty";  // curriculum: larger = harder; 1 - pass rate if no task has it
  double curriculum_start = 0.2;                // share of the tasks, easiest first, at the run's start; in (0, 1]
  double curriculum_until = 0.6;                // share of the run's steps after which all tasks are in; in (0, 1]
  std::string pass_rate_field = "";             // a number in [0, 1] of every task: its success rate before the run
  double warm_up = 0;                           // share of the run's steps in which `hard_below` does not count
  double hard_below = 0;                        // only tasks with a success rate below it; 0 = all
  int32_t retire_after = 0;    // groups in a row that all succeeded or all failed, after which a task rests; 0 = never
  int64_t retire_groups = 0;   // ended groups of the run for which it rests
  double success_above = 0.5;  // an episode succeeded if its outcome is above it

  // True = a task depends only on the seed and the group.
  bool plain() const { return order == "uniform" && domains.empty() && !once && hard_below == 0 && retire_after == 0; }
  absl::Status Validate() const;
};

// Groups that branch (train_groups.h); `agents.branching` in the YAML.
struct BranchingOptions {
  int32_t at = 0;     // calls of a trunk before it is forked, >= 1 with a width
  int32_t width = 0;  // leaves of each trunk: 2 or more, and a divisor of the group's size; 0 = groups do not branch
};

struct SchedulerOptions {
  static constexpr int32_t kMaxGroupSize = 1 << 16;

  // ---- The window (policy.h)
  int32_t group_size = 8;        // samples per group, 1 to kMaxGroupSize
  int64_t groups_per_step = 16;  // P: groups in a batch, >= 1
  int64_t max_staleness = 1;     // S in versions, >= 0; 0 = on-policy
  double window_fraction = 0.3;  // W = max(1, floor(this * (S+1)P)), in (0, 1]
  WindowOrder order = WindowOrder::kWindowed;
  int64_t total_steps = 100;  // optimizer steps of the run; 0 = evaluations only

  // ---- Failures
  // Seconds of a group from its first ticket to its last end (train_groups.h); past them the group fails. Also bounds
  // one attempt of an evaluation.
  double group_deadline_seconds = 1800;
  // Failed attempts of one sample before its group fails, >= 1. Attempts lost to a restart do not count.
  int32_t max_attempts = 3;
  // The same for attempts failed by the infrastructure, >= 1.
  int32_t max_infrastructure_failures = 10;
  // The run ends with the last failure's reason after more than B groups failed and none finished for this many
  // seconds; 0 = never.
  double give_up_seconds = 3600;
  // The run ends with the last failure's reason after this many episodes in a row failed in their set-up and none has
  // finished; 0 = never. Such failures are caused by the recipe or the machine, and repeat.
  int32_t give_up_unstarted = 16;
  // The run ends after this many groups in a row were dropped for equal rewards; 0 = never. Failed groups between them
  // do not count. No effect with max_drops_per_batch, which trains such groups.
  int32_t give_up_equal = 1024;
  int32_t max_concurrent_episodes = 0;  // running at a time, evaluations included; 0 = no limit

  // ---- Groups without a signal
  bool drop_zero_variance = true;  // drops groups whose rewards are all equal; no effect with group_size 1
  // After this many drops since the last batch, groups of equal rewards are trained: a policy that always or never
  // succeeds does not stall the run. 0 = no limit except give_up_equal.
  int32_t max_drops_per_batch = 0;

  // ---- Storage
  // Steps below the newest checkpoint whose trees stay in the pool, in addition to the steps that a kept checkpoint may
  // replay; 0 = all trees stay.
  int64_t keep_steps = 0;
  int64_t keep_checkpoints = 2;  // checkpoints that the trainer keeps, > 0

  int64_t retry_after_ms = 200;  // hint in RESOURCE_EXHAUSTED answers, > 0
  uint64_t seed = 0;             // of the order of tasks
  BranchingOptions branching = {};
  SamplingOptions sampling = {};

  // ---- Evaluations
  // True = an evaluation of version total_steps follows the last batch. Until it is done, Admit returns
  // RESOURCE_EXHAUSTED instead of FAILED_PRECONDITION.
  bool final_eval = false;
  int32_t max_active_evals = 4;        // started and not done, >= 1
  int64_t max_eval_episodes = 100000;  // tasks times avg_n of one evaluation, >= 1

  WindowOptions window() const {
    return {.groups_per_step = groups_per_step,
            .max_staleness = max_staleness,
            .window_fraction = window_fraction,
            .order = order};
  }
  absl::Status Validate() const;
};

}  // namespace ingot::scheduler
