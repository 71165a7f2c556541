// Stages episode mutations in a commit. Each function checks the stored state and changes it. proto/datapool.proto
// defines their semantics and errors. REQUIRES: datapool/validate.h accepted the requests.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "datapool/database.h"
#include "proto/datapool.pb.h"

namespace ingot::datapool {

// Older attempts at the sample end as fenced, at time `unix_ns`.
absl::Status StageStoreEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters,
                               const v1::StoreEpisodeRequest& request, int64_t unix_ns);

// Returns INVALID_ARGUMENT if the episode would have more signals or facts than tree/signal_bounds.h allows.
absl::Status StageStoreReward(Database::Batch& batch, const v1::StoreRewardRequest& request);

absl::Status StageStoreEnd(Database::Batch& batch, const v1::StoreEndRequest& request);

absl::Status StageTakeOverEpisode(Database::Batch& batch, const v1::TakeOverEpisodeRequest& request);
absl::Status StageStoreGrades(Database::Batch& batch, const v1::StoreGradesRequest& request);

// Deletes the episode at this `order` key and its calls. If it is the last episode in its group, also deletes the
// group's segments. Returns OK if there is no such episode.
absl::Status StageDeleteEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters, const std::string& order_key);

}  // namespace ingot::datapool
