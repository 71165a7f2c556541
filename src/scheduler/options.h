// The scheduler's options; the app binds them to the configuration's keys.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "scheduler/policy.h"

namespace ingot::scheduler {

struct SchedulerOptions {
  static constexpr int32_t kMaxGroupSize = 1 << 16;

  // ---- The window (policy.h)
  int32_t group_size = 8;        // samples per group, 1 to kMaxGroupSize
  int64_t groups_per_step = 16;  // P: groups in a batch, >= 1
  int64_t max_staleness = 1;     // S in versions, >= 0; 0 = on-policy
  double window_fraction = 0.3;  // W = max(1, floor(this * (S+1)P)), in (0, 1]
  int64_t total_steps = 100;     // optimizer steps of the run; 0 = evaluations only

  // ---- Failures
  // Seconds of a group from its first ticket to its last end (train_groups.h); past them the group fails. Also bounds
  // one attempt of an evaluation.
  double group_deadline_seconds = 1800;
  // Failed attempts of one sample before its group fails, >= 1. Attempts that a restart lost do not count.
  int32_t max_attempts = 3;
  // The run ends with the last failure's reason once, for so many seconds, more than B groups failed and none finished;
  // 0 = never.
  double give_up_seconds = 3600;
  // The run ends with the last failure's reason once so many episodes in a row failed of their set-up, and none has
  // finished; 0 = never. Such failures are the recipe's or the machine's, and come again.
  int32_t give_up_unstarted = 16;
  int32_t max_concurrent_episodes = 0;  // running at a time, evaluations included; 0 = no limit

  // ---- Groups without a signal
  bool drop_zero_variance = true;  // drops groups whose rewards are all equal; no effect with group_size 1
  // After so many drops since the last batch, groups of equal rewards are finished: a policy that always or never
  // succeeds does not stall the run. 0 = no limit.
  int32_t max_drops_per_batch = 0;

  // ---- Storage
  // Steps below the newest checkpoint whose trees stay in the pool, beside those that a kept checkpoint may replay;
  // 0 = all trees stay.
  int64_t keep_steps = 0;
  int64_t keep_checkpoints = 2;  // checkpoints that the trainer keeps, > 0

  int64_t retry_after_ms = 200;  // hint in RESOURCE_EXHAUSTED answers, > 0
  uint64_t seed = 0;             // of the order of tasks

  // ---- Evaluations
  // True = an evaluation of version total_steps follows the last batch. Until it is done, Admit answers
  // RESOURCE_EXHAUSTED instead of FAILED_PRECONDITION.
  bool final_eval = false;
  int32_t max_active_evals = 4;        // started and not done, >= 1
  int64_t max_eval_episodes = 100000;  // tasks times avg_n of one evaluation, >= 1

  WindowOptions window() const {
    return {.groups_per_step = groups_per_step, .max_staleness = max_staleness, .window_fraction = window_fraction};
  }
  absl::Status Validate() const;
};

}  // namespace ingot::scheduler
