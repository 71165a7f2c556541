// Decides whether a round's version may be deployed: its evaluation must meet learn.require. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/learning/rounds.h"
#include "base/status.h"
#include "view/evaluation/requirement.h"

namespace ingot::app {

// Parses learn.require. Returns INVALID_ARGUMENT with the first malformed condition.
absl::StatusOr<std::vector<view::Requirement>> ParseLearnRequirements(const std::vector<std::string>& texts);

// Sets the round's evaluation, one reason per requirement, and its outcome: kDeployed if all requirements are met, and
// otherwise kRejected. `deployed` is the round that deployed the current version, with which `best` compares; null =
// there is none, so `best` is met. Returns NOT_FOUND if the evaluation lacks a required figure.
absl::Status DecideDeployment(const std::vector<view::Requirement>& requirements, const view::Figures& figures,
                              const Round* deployed, Round& round);

// Sets the round's outcome to kFailed, with `what` failed and `why` as its reason. Returns `why` if it must end the process
// instead, so that the round stays open and the next process continues it: CANCELLED, and base::DeviceFailure.
absl::Status FailRound(const absl::Status& why, std::string_view what, Round& round);

}  // namespace ingot::app
