#include "app/training/grading.h"

#include <algorithm>
#include <utility>

#include "base/config.h"
#include "base/executor.h"
#include "reward/stage.h"
#include "reward/terms/verdicts.h"

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
  schema.Section("rewards", options);
  return schema.EffectiveYaml();
}

absl::StatusOr<std::unique_ptr<scheduler::Grader>> MakeStageGrader(const RunConfig& config, datapool::Client& pool,
                                                                   reward::TermParts servers) {
  if (!config.has_reward_stage()) return nullptr;
  if (std::ranges::any_of(config.rewards.terms, [](const auto& term) { return term.kind == "judge"; })) {
    INGOT_ASSIGN_OR_RETURN(servers.verdicts,
                           reward::Verdicts::Open(absl::StrCat(config.root, "/", config.name, "/verdicts.jsonl")));
  }
  INGOT_ASSIGN_OR_RETURN(reward::Rule rule, reward::Rule::Make(config.rewards, RewardsText(config.rewards), servers));
  const reward::StageOptions options{.total_steps = config.scheduler.total_steps,
                                     .compared = {.credit = config.trainer.advantage_credit,
                                                  .by_terms = config.trainer.by_terms(),
                                                  .by_role = config.trainer.by_role(),
                                                  .lone_roles = !config.trainer.within_group()}};
  return std::make_unique<StageGrader>(reward::Stage(std::move(rule), pool, options));
}

RewardGrading::RewardGrading(const reward::RewardOptions& options, std::unique_ptr<scheduler::Grader> grader)
    : options_(options), grader_(std::move(grader)) {
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
  if (executor_ != nullptr) executor_->Shutdown();
}

}  // namespace ingot::app
