// The reward stage as the scheduler asks it.
#pragma once

#include <cstdint>

#include "base/executor.h"
#include "base/status.h"
#include "proto/reward.pb.h"

namespace ingot::scheduler {

class Grader {
 public:
  virtual ~Grader() = default;
  // Blocks, for minutes with an LLM judge. Thread safe. Idempotent: a group that has grades is not judged again.
  // UNAVAILABLE, DEADLINE_EXCEEDED: ask again; finished judgements are kept. Any other error is caused by the group or
  // the configuration, and asking again does not help: the group fails with its text. NOT_FOUND: the pool lacks the
  // group. An error of one term has the term's name as cause (base/cause.h).
  virtual absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request) = 0;
};

// The stage of a run, and the threads on which the scheduler waits for it. Both outlive the scheduler's last call. The
// owner shuts the executor down before it destroys the scheduler.
struct Grading {
  Grader* grader = nullptr;  // null = the returns reported with the episodes' ends are the rewards
  base::Executor* executor = nullptr;
  double deadline_s = 600;  // from a group's last end; past it the group fails
  double retry_s = 1;       // from a failed attempt to the next one
  // The run ends after this many groups in a row failed because of one term (GradeResponse.failed_term); 0 = never.
  int32_t give_up_groups = 16;
};

}  // namespace ingot::scheduler
