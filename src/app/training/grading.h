// Connects the scheduler to a run's reward stage, and runs the threads that wait for it. The stage runs in this process
// or as a separate role (cluster.rewards_role):
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

// Returns the `rewards` section as YAML. Equal terms give identical YAML.
std::string RewardsText(reward::RewardOptions options);

// Creates the section's terms, which call `parts`. Returns INVALID_ARGUMENT, naming the term, if a term cannot be
// created.
absl::StatusOr<reward::Rule> MakeRule(const reward::RewardOptions& options, const reward::TermParts& parts);

// This object must outlive the scheduler that uses it. Call Stop before destroying the scheduler.
class RewardGrading {
 public:
  // `grader` is the stage; null = the reward is only the outcome. `stop` ends the grader's wait for another
  // process.
  RewardGrading(
      const reward::RewardOptions& options, std::shared_ptr<scheduler::Grader> grader,
      std::function<void()> stop = [] {});
  ~RewardGrading();

  // The result has no grader if the reward is only the outcome.
  scheduler::Grading grading();
  // Blocks until no group is being scored. Idempotent.
  void Stop();

 private:
  const reward::RewardOptions options_;
  const std::shared_ptr<scheduler::Grader> grader_;
  const std::function<void()> stop_;
  std::unique_ptr<base::Executor> executor_;  // null if there is no grader
};

}  // namespace ingot::app
