#include "reward/terms/completion_time.h"

#include "base/config.h"
#include "reward/terms/place.h"

namespace ingot::reward {

void Bind(base::Schema& schema, CompletionTimeOptions& o) {
  schema.Field("correct_above", &o.correct_above, "an outcome above this is correct");
}

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> CompletionTimeTerm::Judge(const GroupFacts& group) const {
  std::vector<size_t> compared;
  std::vector<double> seconds;
  for (size_t i = 0; i < group.episodes.size(); ++i) {
    const EpisodeFacts& episode = group.episodes[i];
    if (episode.outcome() <= options_.correct_above || episode.seconds <= 0) continue;
    compared.push_back(i);
    seconds.push_back(episode.seconds);
  }
  const std::vector<double> places = PlacesOf(seconds);
  std::vector<absl::StatusOr<TermResult>> results(group.episodes.size(), TermResult());
  for (size_t i = 0; i < compared.size(); ++i) results[compared[i]]->value = places[i];
  return results;
}

}  // namespace ingot::reward
