#include "app/grading.h"

#include <utility>

#include "app/role_schemas.h"
#include "base/executor.h"
#include "reward/stage.h"

namespace ingot::app {
namespace {

class StageGrader final : public scheduler::Grader {
 public:
  explicit StageGrader(reward::Stage stage) : stage_(std::move(stage)) {}
  absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request) override { return stage_.Grade(request); }

 private:
  reward::Stage stage_;
};

}  // namespace

std::string RewardsText(reward::RewardOptions options) {
  base::Schema schema;
  BindRewards(schema, options);
  return schema.EffectiveYaml();
}

struct RewardGrading::Parts {
  std::unique_ptr<StageGrader> grader;  // null = the outcome alone
  double deadline_s = 0;
  int32_t give_up_groups = 0;
  std::unique_ptr<base::Executor> executor;
};

RewardGrading::RewardGrading(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
RewardGrading::~RewardGrading() { Stop(); }

absl::StatusOr<std::unique_ptr<RewardGrading>> RewardGrading::Make(const RunConfig& config, datapool::Client& pool,
                                                                   const reward::TermParts& servers) {
  auto parts = std::make_unique<Parts>();
  if (!config.rewards.outcome_alone()) {
    INGOT_ASSIGN_OR_RETURN(reward::Rule rule, reward::Rule::Make(config.rewards, RewardsText(config.rewards), servers));
    parts->grader = std::make_unique<StageGrader>(
        reward::Stage(std::move(rule), pool,
                      {.total_steps = config.scheduler.total_steps, .credit = config.trainer.advantage_credit}));
    parts->deadline_s = config.rewards.deadline_s;
    parts->give_up_groups = config.rewards.give_up_groups;
    parts->executor = std::make_unique<base::Executor>(
        base::ExecutorOptions{.name = "rewards", .threads = config.rewards.concurrency});
  }
  return std::unique_ptr<RewardGrading>(new RewardGrading(std::move(parts)));
}

scheduler::Grading RewardGrading::grading() {
  if (parts_->grader == nullptr) return {};
  return {.grader = parts_->grader.get(),
          .executor = parts_->executor.get(),
          .deadline_s = parts_->deadline_s,
          .give_up_groups = parts_->give_up_groups};
}

void RewardGrading::Stop() {
  if (parts_->executor != nullptr) parts_->executor->Shutdown();
}

}  // namespace ingot::app
