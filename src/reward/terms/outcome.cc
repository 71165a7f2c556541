#include "reward/terms/outcome.h"

namespace ingot::reward {

absl::StatusOr<TermResult> OutcomeTerm::Of(const EpisodeFacts& episode) const {
  TermResult result;
  result.value = episode.record().reward();
  for (const auto& [call, reward] : episode.record().call_rewards()) result.calls[call] = reward;
  return result;
}

}  // namespace ingot::reward
