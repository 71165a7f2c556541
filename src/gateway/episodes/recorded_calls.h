// Builds an episode's history from recorded calls. They belong to an episode that an earlier gateway opened, or to the
// trunk from whose snapshot the episode starts. Internal to this directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "datapool/client.h"
#include "gateway/episodes/episode.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// Returns the calls in `tree`, preceded by the trunk's calls (Episode.fork) up to the fork. Reads the trunk's calls
// from the pool and adds them to `tree`. If a history cannot be parsed, logs it and returns an empty history, so later
// prompts are rendered from scratch. Blocks for one RPC per trunk. Returns DATA_LOSS if a trunk lacks the call where
// the episode branched off.
absl::StatusOr<Episode::EarlierCalls> EarlierCallsOf(datapool::Client& pool, v1::EpisodeTree& tree);

// Returns a snapshot id, which encodes how many of the episode's calls precede the snapshot. So a restarted gateway can
// locate the snapshot without a record.
std::string SnapshotId(const std::string& episode_id, int32_t calls);
struct SnapshotPlace {
  std::string episode_id;
  int32_t calls = 0;  // the snapshot comes after the episode's calls with smaller sequence numbers
};
absl::StatusOr<SnapshotPlace> PlaceOfSnapshot(const std::string& snapshot_id);

// Returns the fork after this many calls in a trunk; nullopt = after its last call.
v1::EpisodeFork ForkOf(const v1::EpisodeTree& trunk, std::optional<int32_t> calls);

}  // namespace ingot::gateway
