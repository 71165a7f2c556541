#include "gateway/lifecycle/trunks.h"

#include <algorithm>
#include <optional>

#include "gateway/api/api_error.h"
#include "gateway/episodes/recorded_calls.h"

namespace ingot::gateway {
namespace {

// Returns the number of calls in an episode, including those before the snapshot that it started from.
int32_t CallsOf(const v1::EpisodeTree& tree) {
  const auto begin = PlaceOfSnapshot(tree.episode().fork().snapshot_id());
  int32_t calls = begin.ok() ? begin->calls : 0;
  for (const v1::Call& call : tree.calls()) calls = std::max(calls, call.sequence() + 1);
  return calls;
}

}  // namespace

absl::StatusOr<v1::EpisodeTree> ReadTrunk(datapool::Client* pool, const std::string& episode_id) {
  if (pool == nullptr) return absl::FailedPreconditionError("this gateway has no pool");
  v1::GetEpisodeRequest get;
  get.set_episode_id(episode_id);
  get.set_with_calls(true);
  return pool->GetEpisode(get);
}

absl::Status RequestForkSample(datapool::Client* pool, const std::string& snapshot_id, v1::Episode& record,
                               v1::AdmitRequest& request) {
  const auto place = PlaceOfSnapshot(snapshot_id);
  if (!place.ok()) return BadRequest("from_snapshot", std::string(place.status().message()));
  const auto trunk = ReadTrunk(pool, place->episode_id);
  const auto not_found = [](const std::string& why) {
    return ApiError(404, "snapshot_not_found", "from_snapshot", why);
  };
  if (absl::IsNotFound(trunk.status()) || absl::IsFailedPrecondition(trunk.status())) {
    return not_found(absl::StrCat("no episode in this run has the snapshot ", snapshot_id));
  }
  INGOT_RETURN_IF_ERROR(trunk.status());
  if (trunk->episode().runner().empty()) {
    return not_found(absl::StrCat("episode ", place->episode_id,
                                  " has no snapshots: its agent was started elsewhere, and its files are there"));
  }
  if (const int32_t calls = CallsOf(*trunk); place->calls > calls) {
    return not_found(absl::StrCat("there is no snapshot ", snapshot_id, ": the episode has made ", calls, " calls"));
  }
  if (trunk->episode().purpose() != v1::PURPOSE_TRAIN) {
    return ApiError(409, "no_group", "from_snapshot", "only training episodes have a group that others can join");
  }
  *record.mutable_fork() = ForkOf(*trunk, place->calls);
  request.clear_task();
  request.set_sample_of(trunk->episode().ref().group_id());
  return absl::OkStatus();
}

absl::StatusOr<Episode::EarlierCalls> JoinTrunk(datapool::Client* pool, v1::Episode& record) {
  if (record.fork().snapshot_id().empty()) {  // the scheduler specifies only the trunk
    INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree trunk, ReadTrunk(pool, record.fork().episode_id()));
    *record.mutable_fork() = ForkOf(trunk, std::nullopt);
  }
  v1::EpisodeTree tree;
  *tree.mutable_episode() = record;
  return EarlierCallsOf(*pool, tree);
}

}  // namespace ingot::gateway
