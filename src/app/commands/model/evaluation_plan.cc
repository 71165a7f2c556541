#include "app/commands/model/evaluation_plan.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_join.h"
#include "app/run/run_config.h"
#include "base/nearest_key.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

// Returns INVALID_ARGUMENT if a scaffold is no recipe or is named twice.
absl::Status CheckScaffolds(const std::vector<std::string>& scaffolds, const RunConfig& config) {
  std::vector<std::string> known;
  for (const agents::RecipeOptions& recipe : config.agents.recipes) known.push_back(recipe.name);
  std::set<std::string> named;
  for (const std::string& scaffold : scaffolds) {
    if (!named.insert(scaffold).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--scaffold names '", base::Printable(scaffold), "' twice: name it once"));
    }
    if (std::ranges::count(known, scaffold) > 0) continue;
    const std::string nearest = base::NearestKey(scaffold, known);
    return absl::InvalidArgumentError(absl::StrCat(
        "--scaffold '", base::Printable(scaffold), "' is not a recipe in agents.recipes, which has ",
        base::Printable(absl::StrJoin(known, ", ")),
        nearest.empty() ? ": name one of them" : absl::StrCat(": did you mean ", base::Printable(nearest), "?")));
  }
  return absl::OkStatus();
}

// Returns INVALID_ARGUMENT if tasks have too few samples for a pass@K that is asked for.
absl::Status CheckPasses(const std::vector<int64_t>& passes, const RunConfig& config) {
  for (const int64_t k : passes) {
    if (k >= 1 && k <= config.eval.avg_n) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "pass@", k, " needs ", k < 1 ? "a positive number" : absl::StrCat("at least ", k, " samples per task"),
        ", and eval.avg_n is ", config.eval.avg_n, k < 1 ? "" : absl::StrCat(": set eval.avg_n=", k),
        k < 1 ? ": ask for pass@1 or more" : ", or ask for a smaller number"));
  }
  return absl::OkStatus();
}

// Returns INVALID_ARGUMENT if a requirement is about a scaffold that is not evaluated on its own.
absl::Status CheckRequiredScaffolds(const EvaluationPlan& plan) {
  for (const view::Requirement& requirement : plan.requirements) {
    if (requirement.scaffold.empty() || std::ranges::count(plan.scaffolds, requirement.scaffold) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("requirement '", base::Printable(requirement.text), "': the scaffold '",
                     base::Printable(requirement.scaffold), "' is not evaluated on its own: add --scaffold ",
                     base::Printable(requirement.scaffold), ", or remove it from the requirement"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EvaluationPlan> PlanEvaluation(const EvaluateArgs& args) {
  EvaluationPlan plan;
  INGOT_ASSIGN_OR_RETURN(plan.requirements, view::ParseRequirements(args.requirements));
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.run.config, args.run.overrides));
  const RunConfig& config = *loaded.config;
  if (!config.eval.has_tasks()) {
    return absl::InvalidArgumentError(absl::StrCat(args.run.config, ": eval.tasks is not set"));
  }
  INGOT_RETURN_IF_ERROR(RequireTasks(config));
  if (config.agents.recipes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.run.config, ": agents.recipes is empty, but `ingot eval` starts the agents itself"));
  }
  INGOT_RETURN_IF_ERROR(CheckScaffolds(args.scaffolds, config));
  plan.scaffolds = args.scaffolds.empty() ? std::vector<std::string>{""} : args.scaffolds;
  plan.passes = args.pass;
  for (const view::Requirement& requirement : plan.requirements) {
    if (const std::optional<int64_t> k = view::PassOf(requirement)) plan.passes.push_back(*k);
  }
  INGOT_RETURN_IF_ERROR(CheckPasses(plan.passes, config));
  INGOT_RETURN_IF_ERROR(CheckRequiredScaffolds(plan));
  return plan;
}

}  // namespace ingot::app
