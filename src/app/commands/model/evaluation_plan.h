// What `ingot eval` is asked to do, checked before anything is loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/commands/model/evaluate.h"
#include "base/status.h"
#include "view/evaluation/requirement.h"
#include "weights/snapshot.h"

namespace ingot::app {

// What the command's evaluations share.
struct EvaluationPlan {
  std::vector<view::Requirement> requirements;
  std::vector<std::string> scaffolds;                 // "" = the run's mix of recipes
  std::vector<int64_t> passes;                        // each K that an option or a requirement asks for
  std::shared_ptr<const weights::Snapshot> snapshot;  // null until the first evaluation loads it
};

// Checks the arguments and the configuration. Returns INVALID_ARGUMENT, with what to do, for a malformed requirement, a
// scaffold that is not a recipe, a pass@K with K above eval.avg_n, or a requirement on a scaffold that is not evaluated.
absl::StatusOr<EvaluationPlan> PlanEvaluation(const EvaluateArgs& args);

}  // namespace ingot::app
