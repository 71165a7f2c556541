#include "reward/term.h"

namespace ingot::reward {

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> EpisodeTerm::Judge(const GroupFacts& group) const {
  INGOT_RETURN_IF_ERROR(CheckTask(group.group->task()));
  std::vector<absl::StatusOr<TermResult>> results;
  for (const EpisodeFacts& episode : group.episodes) results.emplace_back(Of(episode));
  return results;
}

}  // namespace ingot::reward
