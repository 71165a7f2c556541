#include "reward/terms/length.h"

#include <algorithm>

namespace ingot::reward {

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> LengthTerm::Judge(const GroupFacts& group) const {
  std::vector<absl::StatusOr<TermResult>> results(group.episodes.size(), TermResult());
  if (group.episodes.empty()) return results;
  const auto [low, high] =
      std::minmax_element(group.episodes.begin(), group.episodes.end(),
                          [](const auto& a, const auto& b) { return a.sampled_tokens < b.sampled_tokens; });
  const auto shortest = static_cast<double>(low->sampled_tokens);
  const auto range = static_cast<double>(high->sampled_tokens) - shortest;
  if (range == 0) return results;
  for (size_t i = 0; i < results.size(); ++i) {
    const EpisodeFacts& episode = group.episodes[i];
    const double lambda = 0.5 - (static_cast<double>(episode.sampled_tokens) - shortest) / range;
    const bool correct = episode.record().reward() > options_.correct_above;
    results[i]->value = correct ? lambda : std::min(0.0, lambda);
  }
  return results;
}

}  // namespace ingot::reward
