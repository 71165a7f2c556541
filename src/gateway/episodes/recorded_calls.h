// Recorded calls as an episode's history: of an episode that an earlier gateway opened, and of the trunk from whose
// snapshot an episode begins. Internal to the folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "datapool/client.h"
#include "gateway/episodes/episode.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// The calls of `tree`, and before them those of its trunk (Episode.fork) up to the fork, which are read from the pool and
// added to `tree`. A history that cannot be read is logged and empty: later prompts are rendered anew. Blocks for one rpc
// per trunk. DATA_LOSS: a trunk does not hold the call at which the episode left it.
absl::StatusOr<Episode::EarlierCalls> EarlierCallsOf(datapool::Client& pool, v1::EpisodeTree& tree);

// The id of a snapshot says where it was taken: behind so many calls of the episode. So a gateway that was started again
// knows the place without any record of its own.
std::string SnapshotId(const std::string& episode_id, int32_t calls);
struct SnapshotPlace {
  std::string episode_id;
  int32_t calls = 0;  // the episode's calls with smaller sequence numbers lie before it
};
absl::StatusOr<SnapshotPlace> PlaceOfSnapshot(const std::string& snapshot_id);

// The fork at that place of a trunk; nullopt: behind its last call.
v1::EpisodeFork ForkOf(const v1::EpisodeTree& trunk, std::optional<int32_t> calls);

}  // namespace ingot::gateway
