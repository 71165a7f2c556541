// The scheduler's interface to the reward stage.
#pragma once

#include <cstdint>

#include "base/executor.h"
#include "base/status.h"
#include "proto/reward.pb.h"

namespace ingot::scheduler {

class Grader {
 public:
  virtual ~Grader() = default;
  // Grades a group. Blocks, possibly for minutes with an LLM judge. Thread safe. Idempotent: a group that already has
  // grades is not judged again. After UNAVAILABLE or DEADLINE_EXCEEDED, the caller retries, and finished judgments are
  // kept. Any other error is caused by the group or the configuration and is permanent: the group fails with that
  // message. Returns NOT_FOUND if the pool does not have the group. If one term fails, the term's name is the error's
  // cause (base/cause.h).
  virtual absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request) = 0;
};

// A run's reward stage and the threads that wait for it. Both must outlive the scheduler's last call. The owner must
// shut down the executor before it destroys the scheduler.
struct Grading {
  Grader* grader = nullptr;  // null = use the returns in the end reports as rewards
  base::Executor* executor = nullptr;
  double deadline_s = 600;  // maximum time after a group's last episode ends; after that, the group fails
  double retry_s = 1;       // delay after a failed attempt
  // The run ends after this many consecutive groups failed because of the same term (GradeResponse.failed_term). 0 =
  // never.
  int32_t give_up_groups = 16;
};

}  // namespace ingot::scheduler
