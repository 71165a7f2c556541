// Trunks, and the episodes that start from a snapshot of one. All functions block for the pool; null = there is no pool.
#pragma once

#include <string>

#include "base/status.h"
#include "datapool/client.h"
#include "gateway/episodes/episode.h"
#include "proto/scheduler.pb.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// The trunk with its calls. FAILED_PRECONDITION: there is no pool.
absl::StatusOr<v1::EpisodeTree> ReadTrunk(datapool::Client* pool, const std::string& episode_id);

// Asks for a sample of the group of the snapshot's episode, and sets the record's fork. 400: no id of a snapshot. 404:
// no episode has it. 409: its episode has no group.
absl::Status AskAsFork(datapool::Client* pool, const std::string& snapshot_id, v1::Episode& record,
                       v1::AdmitRequest& ask);

// The trunk's calls up to the record's fork, whose fields it completes.
absl::StatusOr<Episode::EarlierCalls> JoinTrunk(datapool::Client* pool, v1::Episode& record);

}  // namespace ingot::gateway
