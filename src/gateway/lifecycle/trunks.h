// Reads trunks and starts episodes from trunk snapshots. All functions block on the pool. `pool` may be null.
#pragma once

#include <string>

#include "base/status.h"
#include "datapool/client.h"
#include "gateway/episodes/episode.h"
#include "proto/scheduler.pb.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// Returns the trunk with its calls, or FAILED_PRECONDITION if there is no pool.
absl::StatusOr<v1::EpisodeTree> ReadTrunk(datapool::Client* pool, const std::string& episode_id);

// Sets `request` to request a sample in the group of the snapshot's episode, and sets the record's fork. Returns 400 if
// `snapshot_id` is not a snapshot id, 404 if no episode has it, or 409 if its episode has no group.
absl::Status RequestForkSample(datapool::Client* pool, const std::string& snapshot_id, v1::Episode& record,
                               v1::AdmitRequest& request);

// Returns the trunk's calls up to the record's fork, and fills in the fork's fields.
absl::StatusOr<Episode::EarlierCalls> JoinTrunk(datapool::Client* pool, v1::Episode& record);

}  // namespace ingot::gateway
