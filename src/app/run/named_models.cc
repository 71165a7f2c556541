#include "app/run/named_models.h"

#include <algorithm>

#include "reward/terms/judge.h"
#include "reward/terms/teacher.h"

namespace ingot::app {
namespace {

// Returns whether the name refers to weights that do not follow training.
bool IsFixed(const gateway::GatewayOptions& gateway, const std::string& name) {
  const gateway::ModelOptions* model = FindModel(gateway, name);
  return model != nullptr && model->weights != gateway::ModelWeights::kFollow && model->url.empty();
}

}  // namespace

const gateway::ModelOptions* FindModel(const gateway::GatewayOptions& gateway, const std::string& name) {
  const auto found = std::find_if(gateway.models.begin(), gateway.models.end(),
                                  [&name](const gateway::ModelOptions& model) { return model.name == name; });
  return found == gateway.models.end() ? nullptr : &*found;
}

std::set<std::string> OtherModels(const gateway::GatewayOptions& gateway) {
  std::set<std::string> names;
  for (const gateway::ModelOptions& model : gateway.models) {
    if (model.weights != gateway::ModelWeights::kFollow) names.insert(model.name);
  }
  return names;
}

bool AsksModels(const reward::RewardOptions& rewards) {
  return std::any_of(rewards.terms.begin(), rewards.terms.end(), [](const reward::TermOptions& term) {
    return term.kind == "teacher" || (term.kind == "judge" && term.Of<reward::JudgeOptions>().server.url.empty());
  });
}

absl::Status CheckAskedModels(const reward::RewardOptions& rewards, const gateway::GatewayOptions& gateway) {
  for (const reward::TermOptions& term : rewards.terms) {
    const std::string& teacher = term.Of<reward::TeacherOptions>().model;
    if (term.kind == "teacher" && !IsFixed(gateway, teacher)) {
      return absl::InvalidArgumentError(absl::StrCat("rewards.terms (", term.Name(), "): teacher.model is '", teacher,
                                                     "': name a model of gateway.models with weights pinned or "
                                                     "external, and no url, whose server takes ids; the policy cannot "
                                                     "teach itself"));
    }
    const reward::JudgeServer& judge = term.Of<reward::JudgeOptions>().server;
    if (term.kind == "judge" && judge.url.empty() && !IsFixed(gateway, judge.model)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rewards.terms (", term.Name(), "): judge.url is empty, and judge.model '", judge.model,
          "' is not a pinned or external model of gateway.models: name one, or the base URL of a server of OpenAI's "
          "chat "
          "completions, such as one of `ingot serve`"));
    }
  }
  return absl::OkStatus();
}

}  // namespace ingot::app
