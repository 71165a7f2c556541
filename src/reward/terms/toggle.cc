#include "reward/terms/toggle.h"

#include <algorithm>
#include <cmath>

namespace ingot::reward {

absl::Status ToggleOptions::Validate() const {
  if (!(rho > 0 && rho <= 100)) {
    return absl::InvalidArgumentError(absl::StrCat("toggle.rho is ", rho, ": a percentile above 0, up to 100"));
  }
  if (min_correct >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("toggle.min_correct is ", min_correct, ": at least 1"));
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
