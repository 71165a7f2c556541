#include "gateway/episodes/failed_attempts.h"

namespace ingot::gateway {

absl::StatusOr<int32_t> FailedAttemptsBefore(datapool::Client& pool, const v1::Episode& episode) {
  const v1::EpisodeRef& ref = episode.ref();
  int32_t failed = 0;
  if (ref.attempt() == 0) return failed;
  for (datapool::EpisodePages pages(pool, episode.purpose(), ref.group_id(), ref.group_id()); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& other : page.episodes()) {
      if (other.ref().group_id() != ref.group_id() || other.ref().sample_index() != ref.sample_index()) continue;
      if (other.ref().attempt() >= ref.attempt()) continue;
      failed += other.state() == v1::EPISODE_FAILED || other.state() == v1::EPISODE_INFRASTRUCTURE_FAILED ? 1 : 0;
    }
  }
  return failed;
}

}  // namespace ingot::gateway
