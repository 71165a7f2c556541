// Recorded calls as an episode's history: of an episode that an earlier gateway opened, and of the trunk whose snapshot
// an episode starts from. Internal to the folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "datapool/client.h"
#include "gateway/episodes/episode.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// The calls of `tree`, preceded by the trunk's calls (Episode.fork) up to the fork, which are read from the pool and
// added to `tree`. A history that cannot be read is logged and empty: later prompts are rendered again. Blocks for one
// rpc per trunk. DATA_LOSS: a trunk does not hold the call at which the episode branched off.
absl::StatusOr<Episode::EarlierCalls> EarlierCallsOf(datapool::Client& pool, v1::EpisodeTree& tree);

// The id of a snapshot says where it was taken: after this many calls of the episode. So a restarted gateway knows the
// place without a record.
std::string SnapshotId(const std::string& episode_id, int32_t calls);
struct SnapshotPlace {
  std::string episode_id;
  int32_t calls = 0;  // the snapshot follows the episode's calls with smaller sequence numbers
};
absl::StatusOr<SnapshotPlace> PlaceOfSnapshot(const std::string& snapshot_id);

// The fork at that place of a trunk; nullopt = after its last call.
v1::EpisodeFork ForkOf(const v1::EpisodeTree& trunk, std::optional<int32_t> calls);

}  // namespace ingot::gateway
