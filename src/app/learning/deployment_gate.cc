#include "app/learning/deployment_gate.h"

#include <utility>

#include "base/device_failure.h"

namespace ingot::app {

absl::StatusOr<std::vector<view::Requirement>> ParseLearnRequirements(const std::vector<std::string>& texts) {
  absl::StatusOr<std::vector<view::Requirement>> parsed = view::ParseRequirements(texts);
  if (!parsed.ok()) return base::Annotate(parsed.status(), "learn.require");
  return parsed;
}

absl::Status DecideDeployment(const std::vector<view::Requirement>& requirements, const view::Figures& figures,
                              const Round* deployed, Round& round) {
  round.evaluation = figures;
  std::vector<view::EarlierEvaluation> earlier;
  if (deployed != nullptr) {
    earlier.push_back({absl::StrCat("deployed version ", deployed->version), deployed->evaluation});
  }
  bool met = true;
  for (const view::Requirement& requirement : requirements) {
    INGOT_ASSIGN_OR_RETURN(view::RequirementResult result, view::CheckRequirement(requirement, figures, earlier));
    met = met && result.met;
    round.reasons.push_back(std::move(result.text));
  }
  round.outcome = met ? Outcome::kDeployed : Outcome::kRejected;
  return absl::OkStatus();
}

absl::Status FailRound(const absl::Status& why, std::string_view what, Round& round) {
  if (absl::IsCancelled(why) || base::IsDeviceFailure(why)) return why;
  round.outcome = Outcome::kFailed;
  round.reasons = {absl::StrCat(base::View(what), ": ", why.message())};
  return absl::OkStatus();
}

}  // namespace ingot::app
