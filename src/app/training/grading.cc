#include "app/training/grading.h"

#include <utility>

#include "base/config.h"
#include "base/executor.h"

namespace ingot::app {

std::string RewardsText(reward::RewardOptions options) {
  base::Schema schema;
  schema.Section("rewards", options);
  return schema.EffectiveYaml();
}

absl::StatusOr<reward::Rule> MakeRule(const reward::RewardOptions& options, const reward::TermParts& parts) {
  return reward::Rule::Make(options, RewardsText(options), parts);
}

RewardGrading::RewardGrading(const reward::RewardOptions& options, std::shared_ptr<scheduler::Grader> grader,
                             std::function<void()> stop)
    : options_(options), grader_(std::move(grader)), stop_(std::move(stop)) {
  if (grader_ == nullptr) return;
  executor_ =
      std::make_unique<base::Executor>(base::ExecutorOptions{.name = "rewards", .threads = options_.concurrency});
}

RewardGrading::~RewardGrading() { Stop(); }

scheduler::Grading RewardGrading::grading() {
  if (grader_ == nullptr) return {};
  return {.grader = grader_.get(),
          .executor = executor_.get(),
          .deadline_s = options_.deadline_s,
          .give_up_groups = options_.give_up_groups};
}

void RewardGrading::Stop() {
  stop_();
  if (executor_ != nullptr) executor_->Shutdown();
}

}  // namespace ingot::app
