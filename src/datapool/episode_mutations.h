// Mutations of episodes as parts of a commit: each checks the stored state and changes it. Semantics and errors are
// proto/datapool.proto's. REQUIRES: datapool/validate.h accepted the requests.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "datapool/database.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

// `unix_ns`: the time at which older attempts of the sample end as fenced.
absl::Status StageOpenEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters,
                              const v1::OpenEpisodeRequest& request, int64_t unix_ns);

absl::Status StageRewardEpisode(Database::Batch& batch, const v1::RewardEpisodeRequest& request);

absl::Status StageEndEpisode(Database::Batch& batch, const v1::EndEpisodeRequest& request);

absl::Status StageTakeEpisode(Database::Batch& batch, const v1::TakeEpisodeRequest& request);
absl::Status StageGradeGroup(Database::Batch& batch, const v1::GradeGroupRequest& request);

// Deletes the episode at that key of `order` and its calls; with the last episode of a group, the group's segments too.
// OK if there is no such episode.
absl::Status StageDeleteEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters, const std::string& order_key);

}  // namespace ingot::datapool
