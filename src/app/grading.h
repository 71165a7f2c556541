// The reward stage of a run, in the scheduler's process: the terms of the configuration, judged on threads of their own.
#pragma once

#include <memory>
#include <string>

#include "app/run_config.h"
#include "base/status.h"
#include "datapool/client.h"
#include "reward/term_parts.h"
#include "scheduler/grader.h"

namespace ingot::app {

// The section `rewards` as YAML: the same text for the same terms.
std::string RewardsText(reward::RewardOptions options);

// Outlives the scheduler that it is given to; Stop comes before that one's end.
class RewardGrading {
 public:
  // INVALID_ARGUMENT names a term that cannot be made. `servers`: those that terms ask. REQUIRES: `pool` outlives
  // the stage.
  static absl::StatusOr<std::unique_ptr<RewardGrading>> Make(const RunConfig& config, datapool::Client& pool,
                                                             const reward::TermParts& servers);
  ~RewardGrading();

  // Without a grader if the reward is the outcome alone.
  scheduler::Grading grading();
  // Waits for groups that are being judged. Idempotent.
  void Stop();

 private:
  struct Parts;
  explicit RewardGrading(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace ingot::app
