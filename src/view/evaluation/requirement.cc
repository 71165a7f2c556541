#include "view/evaluation/requirement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/printable.h"

namespace ingot::view {
namespace {

using Operator = Requirement::Operator;

constexpr std::array<std::pair<std::string_view, Operator>, 4> kOperators = {
    {{">=", Operator::kAtLeast}, {"<=", Operator::kAtMost}, {">", Operator::kAbove}, {"<", Operator::kBelow}}};

absl::Status Malformed(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("requirement '", base::Printable(text), "': ", why,
                   ". Write FIGURE OPERATOR VALUE or FIGURE OPERATOR best - VALUE, such as "
                   "'reward_mean >= best - 0.02' or 'pass@4 > 0.5'"));
}

std::string Trimmed(std::string text) {
  absl::StripAsciiWhitespace(&text);
  return text;
}

std::optional<double> NumberIn(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

bool Larger(Operator op) { return op == Operator::kAtLeast || op == Operator::kAbove; }

// Reads what follows `best`: nothing, + VALUE, or - VALUE.
std::optional<double> OffsetIn(const std::string& rest) {
  if (rest.empty()) return 0;
  if (rest[0] != '+' && rest[0] != '-') return std::nullopt;
  const std::optional<double> offset = NumberIn(Trimmed(rest.substr(1)));
  if (!offset || *offset < 0) return std::nullopt;
  return rest[0] == '-' ? -*offset : *offset;
}

const EarlierEvaluation* BestOf(const Requirement& requirement, const std::vector<EarlierEvaluation>& earlier) {
  const EarlierEvaluation* best = nullptr;
  for (const EarlierEvaluation& one : earlier) {
    const auto value = one.figures.find(requirement.figure);
    if (value == one.figures.end() || !std::isfinite(value->second)) continue;
    if (best == nullptr) {
      best = &one;
      continue;
    }
    const double so_far = best->figures.at(requirement.figure);
    if (Larger(requirement.op) ? value->second > so_far : value->second < so_far) best = &one;
  }
  return best;
}

bool Holds(Operator op, double value, double bound) {
  // 0.5 - 0.02 and 0.48 may differ in the last bits.
  const double rounding = 4 * std::numeric_limits<double>::epsilon() * std::max(std::abs(value), std::abs(bound));
  const bool equal = std::abs(value - bound) <= rounding;
  switch (op) {
    case Operator::kAtLeast:
      return equal || value > bound;
    case Operator::kAtMost:
      return equal || value < bound;
    case Operator::kAbove:
      return !equal && value > bound;
    case Operator::kBelow:
      return !equal && value < bound;
  }
  return false;
}

}  // namespace

absl::StatusOr<Requirement> ParseRequirement(const std::string& text) {
  Requirement requirement;
  requirement.text = Trimmed(text);
  const size_t at = text.find_first_of("<>");
  if (at == std::string::npos || (at > 0 && text[at - 1] == '=')) return Malformed(text, "the operator is missing");
  const std::string figure = Trimmed(text.substr(0, at));
  if (figure.empty()) return Malformed(text, "the figure is missing");
  constexpr std::string_view kScaffold = "@scaffold:";
  requirement.figure = figure.starts_with("eval/") ? figure : absl::StrCat("eval/", figure);
  if (const size_t mark = requirement.figure.find(kScaffold); mark != std::string::npos) {
    requirement.scaffold = requirement.figure.substr(mark + kScaffold.size());
    requirement.figure.resize(mark);
  }
  std::string rest = text.substr(at);
  const auto found =
      std::find_if(kOperators.begin(), kOperators.end(), [&](const auto& one) { return rest.starts_with(one.first); });
  requirement.op = found->second;  // `rest` starts with < or >
  rest = Trimmed(rest.substr(found->first.size()));
  requirement.best = rest.starts_with("best");
  const std::optional<double> value = requirement.best ? OffsetIn(Trimmed(rest.substr(4))) : NumberIn(rest);
  if (!value) return Malformed(text, absl::StrCat("'", base::Printable(rest), "' is not a number"));
  requirement.value = *value;
  return requirement;
}

absl::StatusOr<std::vector<Requirement>> ParseRequirements(const std::vector<std::string>& texts) {
  std::vector<Requirement> requirements;
  for (const std::string& text : texts) {
    INGOT_ASSIGN_OR_RETURN(requirements.emplace_back(), ParseRequirement(text));
  }
  return requirements;
}

std::optional<int64_t> PassOf(const Requirement& requirement) {
  constexpr std::string_view kPass = "eval/pass@";
  if (!requirement.figure.starts_with(kPass)) return std::nullopt;
  const std::string rest = requirement.figure.substr(kPass.size());
  int64_t k = 0;
  return absl::SimpleAtoi(rest.substr(0, rest.find('@')), &k) ? std::optional(k) : std::nullopt;
}

absl::StatusOr<RequirementResult> CheckRequirement(const Requirement& requirement, const Figures& figures,
                                                   const std::vector<EarlierEvaluation>& earlier) {
  const auto found = figures.find(requirement.figure);
  if (found == figures.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : figures) names.push_back(base::Printable(name));
    return absl::NotFoundError(absl::StrCat("requirement '", base::Printable(requirement.text),
                                            "': the evaluation has no figure ", base::Printable(requirement.figure),
                                            "; available: ", absl::StrJoin(names, ", ")));
  }
  const auto line = [&](bool met, const std::string& why) {
    return RequirementResult{met, absl::StrFormat("requirement %s: %s (%s is %.4f%s)", met ? "met" : "NOT met",
                                                  base::Printable(requirement.text),
                                                  base::Printable(requirement.figure), found->second, why)};
  };
  if (!requirement.best) return line(Holds(requirement.op, found->second, requirement.value), "");
  const EarlierEvaluation* best = BestOf(requirement, earlier);
  if (best == nullptr) return line(!std::isnan(found->second), "; no earlier evaluation has this figure");
  const double best_value = best->figures.at(requirement.figure);
  return line(Holds(requirement.op, found->second, best_value + requirement.value),
              absl::StrFormat("; the best is %.4f of %s", best_value, base::Printable(best->name)));
}

}  // namespace ingot::view
