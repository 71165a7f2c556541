#include "reward/terms/toggle.h"

#include <algorithm>
#include <cmath>

#include "base/config.h"

namespace ingot::reward {

void Bind(base::Schema& schema, ToggleOptions& o) {
  schema.Field("lambda", &o.lambda, "minimum mean outcome of a group at which the budget applies");
  schema.Field("rho", &o.rho, "percentile of the correct answers' lengths that becomes the budget",
               base::LeftOpen(0, 100));
  schema.Field("min_correct", &o.min_correct, "minimum number of correct answers for an estimate", base::AtLeast(1));
  schema.Field("correct_above", &o.correct_above, "an outcome above this is correct");
}

std::optional<double> ToggleTerm::BudgetOf(const GroupFacts& group) const {
  if (const std::optional<double> fixed = group.Measured(name_, "budget")) return fixed;
  std::vector<int64_t> lengths;
  for (const EpisodeFacts& episode : group.episodes) {
    if (episode.outcome() > options_.correct_above) lengths.push_back(episode.sampled_tokens);
  }
  if (lengths.size() < static_cast<size_t>(options_.min_correct)) return std::nullopt;
  std::sort(lengths.begin(), lengths.end());
  const auto rank = static_cast<size_t>(std::ceil(options_.rho / 100 * static_cast<double>(lengths.size())));
  return static_cast<double>(lengths[std::clamp<size_t>(rank, 1, lengths.size()) - 1]);
}

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> ToggleTerm::Judge(const GroupFacts& group) const {
  std::vector<absl::StatusOr<TermResult>> results(group.episodes.size(), TermResult());
  const std::optional<double> budget = BudgetOf(group);
  if (!budget.has_value()) return results;
  double sum = 0;
  for (const EpisodeFacts& episode : group.episodes) sum += episode.outcome();
  const bool binds = sum >= options_.lambda * static_cast<double>(group.episodes.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const EpisodeFacts& episode = group.episodes[i];
    results[i]->measures["budget"] = *budget;
    if (binds && static_cast<double>(episode.sampled_tokens) > *budget) {
      results[i]->value = -std::max(0.0, episode.outcome());
    }
  }
  return results;
}

}  // namespace ingot::reward
