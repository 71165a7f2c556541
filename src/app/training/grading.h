// The reward stage of a run, and the threads on which the scheduler waits for it. The stage is in this process, or a
// separate role (cluster.rewards_role):
//
//   scheduler --> RewardGrading's threads --> StageGrader                              in process
//                                         \-> NewGrpcGrader --> role `rewards`: StageGrader
#pragma once

#include <memory>
#include <string>

#include "app/run/run_config.h"
#include "base/executor.h"
#include "base/status.h"
#include "datapool/client.h"
#include "reward/term_parts.h"
#include "scheduler/grader.h"

namespace ingot::app {

// The section `rewards` as YAML: the same text for the same terms.
std::string RewardsText(reward::RewardOptions options);

// The stage: the terms of the configuration over the groups of the pool. Null without RunConfig::has_reward_stage.
// INVALID_ARGUMENT names a term that cannot be made, UNAVAILABLE the file of the run's verdicts. `servers`: the servers
// that terms call. REQUIRES: `pool` outlives it; the run's folder exists.
absl::StatusOr<std::unique_ptr<scheduler::Grader>> MakeStageGrader(const RunConfig& config, datapool::Client& pool,
                                                                   reward::TermParts servers);

// Outlives the scheduler that uses it; call Stop before the scheduler ends.
class RewardGrading {
 public:
  // `grader`: the stage; null = the reward is only the outcome.
  RewardGrading(const reward::RewardOptions& options, std::unique_ptr<scheduler::Grader> grader);
  ~RewardGrading();

  // Without a grader if the reward is only the outcome.
  scheduler::Grading grading();
  // Waits for groups that are being judged. Idempotent.
  void Stop();

 private:
  const reward::RewardOptions options_;
  const std::unique_ptr<scheduler::Grader> grader_;
  std::unique_ptr<base::Executor> executor_;  // null without a grader
};

}  // namespace ingot::app
