// The reward stage of a run, and the threads on which the scheduler waits for it. The stage is in this process, or a
// separate role (cluster.rewards_role):
//
//   scheduler --> RewardGrading's threads --> MakeRewardStage                              in process
//                                         \-> NewGrpcGrader --> role `rewards`: MakeRewardStage
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/executor.h"
#include "base/status.h"
#include "reward/options.h"
#include "reward/rule.h"
#include "reward/term_parts.h"
#include "scheduler/grader.h"

namespace ingot::app {

// The section `rewards` as YAML: the same text for the same terms.
std::string RewardsText(reward::RewardOptions options);

// The terms of the section, which call `parts`. INVALID_ARGUMENT names a term that cannot be made.
absl::StatusOr<reward::Rule> MakeRule(const reward::RewardOptions& options, const reward::TermParts& parts);

// Outlives the scheduler that uses it; call Stop before the scheduler ends.
class RewardGrading {
 public:
  // `grader`: the stage; null = the reward is only the outcome. `stop` ends its waits for another process.
  RewardGrading(
      const reward::RewardOptions& options, std::shared_ptr<scheduler::Grader> grader,
      std::function<void()> stop = [] {});
  ~RewardGrading();

  // Without a grader if the reward is only the outcome.
  scheduler::Grading grading();
  // Waits for groups that are being judged. Idempotent.
  void Stop();

 private:
  const reward::RewardOptions options_;
  const std::shared_ptr<scheduler::Grader> grader_;
  const std::function<void()> stop_;
  std::unique_ptr<base::Executor> executor_;  // null without a grader
};

}  // namespace ingot::app
