// The scheduler's options. Their Bind functions declare each key with its description, bounds, and choices.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "scheduler/policy.h"

namespace ingot::base {
class Schema;
}

namespace ingot::scheduler {

// Specifies how the tasks of new groups are chosen (scheduler/task_sampler.h). `scheduler.sampling` in the YAML.
struct SamplingOptions {
  // uniform      shuffled passes over the list
  // curriculum   starts with the easiest tasks and adds harder ones, by `difficulty_field` or `pass_rate_field`
  // prioritized  weighted by 1 - success rate
  std::string order = "uniform";
  std::map<std::string, double> domains = {};
  bool once = false;
  std::string difficulty_field = "difficulty";  // larger = harder; 1 - pass rate if no task has it
  double curriculum_start = 0.2;
  double curriculum_until = 0.6;
  std::string pass_rate_field = "";
  double warm_up = 0;
  double hard_below = 0;
  int32_t retire_after = 0;
  int64_t retire_groups = 0;
  double success_above = 0.5;

  // True = a task depends only on the seed and the group.
  bool plain() const { return order == "uniform" && domains.empty() && !once && hard_below == 0 && retire_after == 0; }
  absl::Status Validate() const;
};

// Specifies how groups branch (train_groups.h). `agents.branching` in the YAML.
struct BranchingOptions {
  int32_t at = 0;     // calls in a trunk before it forks; >= 1 if width > 0
  int32_t width = 0;  // leaves per trunk, at least 2 and a divisor of the group size; 0 = groups do not branch
};

struct SchedulerOptions {
  static constexpr int32_t kMaxGroupSize = 1 << 16;

  // ---- The window (policy.h)
  int32_t group_size = 8;
  int64_t groups_per_step = 16;
  int64_t max_staleness = 1;
  double window_fraction = 0.3;
  WindowOrder order = WindowOrder::kWindowed;
  int64_t total_steps = 100;  // 0 = evaluations only

  // ---- Failures
  // Measured from a group's first ticket until its last episode ends (train_groups.h). Also limits evaluation attempts.
  double group_deadline_seconds = 1800;
  int32_t max_attempts = 3;  // attempts lost to a restart do not count
  int32_t max_infrastructure_failures = 10;
  double give_up_seconds = 3600;
  int32_t give_up_unstarted = 16;  // such failures are caused by the recipe or the machine, so they repeat
  int32_t give_up_equal = 1024;    // failed groups between them do not count
  int32_t max_concurrent_episodes = 0;

  // ---- Groups without a signal
  bool drop_zero_variance = true;   // no effect with group_size 1
  int32_t max_drops_per_batch = 0;  // > 0 keeps a policy that always or never succeeds from stalling the run

  // ---- Storage
  int64_t keep_steps = 0;
  int64_t keep_checkpoints = 2;  // checkpoints that the trainer keeps, > 0

  int64_t retry_after_ms = 200;
  uint64_t seed = 0;  // for the task order
  BranchingOptions branching = {};
  SamplingOptions sampling = {};

  // ---- Evaluations
  // True = version total_steps is evaluated after the last batch. Until that is done, Admit returns RESOURCE_EXHAUSTED
  // instead of FAILED_PRECONDITION.
  bool final_eval = false;
  int32_t max_active_evals = 4;
  int64_t max_eval_episodes = 100000;

  WindowOptions window() const {
    return {.groups_per_step = groups_per_step,
            .max_staleness = max_staleness,
            .window_fraction = window_fraction,
            .order = order};
  }
  // Returns INVALID_ARGUMENT with the option's name.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, SamplingOptions& options);
void Bind(base::Schema& schema, SchedulerOptions& options);
// Binds the keys in the data pool's section.
void BindStorage(base::Schema& schema, SchedulerOptions& options);

}  // namespace ingot::scheduler
