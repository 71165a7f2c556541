#include "reward/terms/length.h"

#include <algorithm>

#include "base/config.h"
#include "reward/terms/place.h"

namespace ingot::reward {

void Bind(base::Schema& schema, LengthOptions& o) {
  schema.Field("correct_above", &o.correct_above, "an outcome above this is correct");
}

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> LengthTerm::Judge(const GroupFacts& group) const {
  std::vector<double> lengths;
  for (const EpisodeFacts& episode : group.episodes) lengths.push_back(static_cast<double>(episode.sampled_tokens));
  const std::vector<double> lambdas = PlacesOf(lengths);
  std::vector<absl::StatusOr<TermResult>> results(lambdas.size(), TermResult());
  for (size_t i = 0; i < results.size(); ++i) {
    const bool correct = group.episodes[i].outcome() > options_.correct_above;
    results[i]->value = correct ? lambdas[i] : std::min(0.0, lambdas[i]);
  }
  return results;
}

}  // namespace ingot::reward
