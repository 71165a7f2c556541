// What the scheduler can be told; bound to the configuration's keys by the app.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "scheduler/policy.h"

namespace ingot::scheduler {

struct SchedulerOptions {
  static constexpr int32_t kMaxGroupSize = 1 << 16;
  int32_t group_size = 8;        // samples per task, >= 1
  int64_t groups_per_step = 16;  // P: groups that one optimizer step trains, >= 1
  int64_t max_staleness = 1;     // S in policy versions, >= 0; 0 is on-policy
  double window_fraction = 0.3;  // W = max(1, floor(this * (S+1)P)), in (0, 1]
  int64_t total_steps = 100;     // the run's optimizer steps; 0: nothing is trained, evaluations only

  double group_deadline_seconds = 1800;  // from a group's first episode to its last, counted while one of them runs or
                                         // may be handed out (scheduler/train_groups.h); past it the group fails. Also
                                         // bounds one attempt of an evaluation's episode
  int32_t max_attempts = 3;       // failed attempts of one sample before its group fails, >= 1; attempts lost to a
                                  // restart do not count
  double give_up_seconds = 3600;  // with so long nothing but failed groups, as many as may be in use and more, the run
                                  // ends with the last one's reason; 0: never
  int32_t max_concurrent_episodes = 0;  // running at a time, evaluation included; 0: no bound of its own

  bool drop_zero_variance = true;  // drop groups whose rewards are all equal; never acts with group_size 1
  int32_t max_drops_per_batch =
      0;  // after so many drops since the last batch, equal groups are trained all the same, so
          // that a policy that always (or never) succeeds does not stall the run; 0: no limit

  int64_t keep_steps = 0;  // newest trained steps below the newest checkpoint whose trees stay in the pool, beside
                           // what a kept checkpoint may replay; 0: all trees stay
  int64_t keep_checkpoints = 2;  // checkpoints that the trainer keeps, > 0

  int64_t retry_after_ms = 200;  // hint in RESOURCE_EXHAUSTED answers, > 0
  uint64_t seed = 0;             // of the order of tasks

  bool final_eval = false;             // an evaluation of version total_steps follows the last batch: admission answers
                                       // "later" instead of "over" until it is done
  int32_t max_active_evals = 4;        // evaluations started and not done, >= 1
  int64_t max_eval_episodes = 100000;  // tasks times avg_n of one evaluation, >= 1

  WindowOptions window() const {
    return {.groups_per_step = groups_per_step, .max_staleness = max_staleness, .window_fraction = window_fraction};
  }
  absl::Status Validate() const;
};

}  // namespace ingot::scheduler
