// Conditions on an evaluation's metrics, such as `reward_mean >= best - 0.02`, that determine whether a checkpoint may
// be used. Pure.
//
//   FIGURE OPERATOR VALUE          FIGURE: reward_mean, pass@4, reward_mean@set:code, ...; `eval/` in front is optional
//   FIGURE OPERATOR best           OPERATOR: >=, >, <=, or <
//   FIGURE OPERATOR best + VALUE   best: the best value of this figure in earlier evaluations, the largest for >= and >
//   FIGURE OPERATOR best - VALUE   and the smallest for <= and <
//
// FIGURE@scaffold:NAME is the figure of one scaffold's evaluation, if an evaluation runs several.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::view {

using Figures = std::map<std::string, double>;  // by full name, such as eval/reward_mean

// The metrics of another checkpoint's evaluation.
struct EarlierEvaluation {
  std::string name;
  Figures figures;
};

struct Requirement {
  enum class Operator { kAtLeast, kAbove, kAtMost, kBelow };
  std::string text;      // as it was written
  std::string figure;    // full name, without the scaffold
  std::string scaffold;  // empty = of every scaffold
  Operator op = Operator::kAtLeast;
  bool best = false;  // compare with `best` + value
  double value = 0;
};

// Returns INVALID_ARGUMENT, with the text and the grammar, if the text does not have one of the forms above.
absl::StatusOr<Requirement> ParseRequirement(const std::string& text);
absl::StatusOr<std::vector<Requirement>> ParseRequirements(const std::vector<std::string>& texts);

// Returns K if the figure is eval/pass@K, of all tasks or of a part of them.
std::optional<int64_t> PassOf(const Requirement& requirement);

struct RequirementResult {
  bool met = false;
  std::string text;  // one line with the figure, the bound, and the bound's source
};

// A requirement that refers to `best` is met if no earlier evaluation has the figure. Equal values meet >= and <=
// despite rounding in the bound's sum. Returns NOT_FOUND, with the available names, if `figures` does not have the
// figure.
absl::StatusOr<RequirementResult> CheckRequirement(const Requirement& requirement, const Figures& figures,
                                                   const std::vector<EarlierEvaluation>& earlier);

}  // namespace ingot::view
