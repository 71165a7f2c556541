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
absl::Status StageStoreEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters,
                               const v1::StoreEpisodeRequest& request, int64_t unix_ns);

// INVALID_ARGUMENT: the episode would have more signals or facts than tree/signal_bounds.h allows.
absl::Status StageStoreReward(Database::Batch& batch, const v1::StoreRewardRequest& request);

absl::Status StageStoreEnd(Database::Batch& batch, const v1::StoreEndRequest& request);

absl::Status StageTakeOverEpisode(Database::Batch& batch, const v1::TakeOverEpisodeRequest& request);
absl::Status StageStoreGrades(Database::Batch& batch, const v1::StoreGradesRequest& request);

// Deletes the episode at that key of `order` and its calls; with the last episode of a group, the group's segments too.
// OK if there is no such episode.
absl::Status StageDeleteEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters, const std::string& order_key);

}  // namespace ingot::datapool
