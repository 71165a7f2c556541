#include "app/learning/learning_check.h"

#include <algorithm>
#include <string>

#include "app/learning/deployment_gate.h"

namespace ingot::app {
namespace {

absl::Status CheckAnswersPerRound(const RunConfig& config) {
  const int64_t answers = config.learn.round_answers, groups = config.scheduler.groups_per_step;
  if (answers % groups == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("learn.round_answers is ", answers,
                                                 ", but must be a multiple of scheduler.groups_per_step (", groups,
                                                 "), the answers per step"));
}

// A judge without a URL is a model that this server serves.
absl::Status CheckJudge(const RunConfig& config) {
  const std::string& model = config.learn.judge.server.model;
  if (!config.learn.judge.on() || !config.learn.judge.server.url.empty() || model == config.gateway.model_name) {
    return absl::OkStatus();
  }
  const bool listed = std::ranges::any_of(config.gateway.models, [&](const auto& one) { return one.name == model; });
  if (listed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("learn.judge.model is '", model, "', which this server does not serve: name gateway.model_name ('",
                   config.gateway.model_name, "') or a model in gateway.models, or set learn.judge.url"));
}

}  // namespace

absl::Status CheckLearning(const RunConfig& config) {
  const auto refuse = [](const std::string& why) { return absl::InvalidArgumentError(why); };
  if (!config.learn.on()) {
    return refuse("learn.users_file is empty: name an owner-only file with a line NAME KEY per user who opted in");
  }
  if (!config.eval.has_tasks()) {
    return refuse("eval.tasks is empty, but every version is evaluated before it is deployed: name held-out tasks");
  }
  if (config.agents.recipes.empty()) {
    return refuse("agents.recipes is empty, but versions are evaluated by agents: give a recipe for eval.tasks");
  }
  if (!config.tasks.empty()) {
    return refuse("data.tasks is set, but `ingot serve --learn` trains on the calls of users alone: remove it");
  }
  if (config.scheduler.group_size != 1) {
    return refuse(absl::StrCat("scheduler.group_size is ", config.scheduler.group_size,
                               ", but an answer to a user is a group of one: set it to 1"));
  }
  if (config.trainer.within_group()) {
    return refuse(absl::StrCat("trainer.advantage_baseline is ", config.trainer.advantage_baseline,
                               ", which compares the samples of a group, but an answer to a user is a group of one: "
                               "set it to batch, or to none"));
  }
  if (config.trainer.objective == "dpo") return refuse("trainer.objective is dpo, which needs groups of two or more");
  if (config.has_external_engine()) return refuse("rollout.engine must be ingot with `ingot serve --learn`");
  if (config.cluster.trainer_ranks > 1) return refuse("cluster.trainer_ranks must be 1 with `ingot serve --learn`");
  if (config.datapool.backend != "rocksdb") {
    return refuse("datapool.backend must be rocksdb with `ingot serve --learn`, whose process holds the pool");
  }
  INGOT_RETURN_IF_ERROR(CheckAnswersPerRound(config));
  INGOT_RETURN_IF_ERROR(CheckJudge(config));
  return ParseLearnRequirements(config.learn.require).status();
}

}  // namespace ingot::app
