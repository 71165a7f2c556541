// Finds episodes in a pool for `ingot inspect`.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "datapool/client.h"

namespace ingot::app {

// Visits all attempts at all episodes with this purpose, ordered by group, sample, and attempt. Returns the pool's
// errors.
absl::Status VisitEpisodes(datapool::Client& pool, v1::EpisodePurpose purpose,
                           const std::function<void(const v1::Episode& episode)>& visit);

// Selects the episodes to list.
struct EpisodeFilter {
  double min_reward = -std::numeric_limits<double>::infinity();  // applies to finished and failed episodes
  double max_reward = std::numeric_limits<double>::infinity();
  std::string domain, scaffold;             // empty = any
  std::optional<std::set<int64_t>> groups;  // nullopt = any

  bool Accepts(const v1::Episode& episode) const;
};

// Episodes without their tasks' payloads.
struct EpisodeList {
  std::vector<v1::Episode> episodes;
  bool more = false;  // more episodes match than are listed
};

// Returns the episodes of the newest groups, newest group first and at most `limit` (0 = all). Within a group they are
// ordered by sample and attempt. Served sessions have no groups and are ordered by opening time, newest first. Reads
// all episodes with the purpose. Returns the pool's errors.
absl::StatusOr<EpisodeList> NewestEpisodes(datapool::Client& pool, v1::EpisodePurpose purpose, size_t limit,
                                           const EpisodeFilter& filter);

// Returns an episode's id. GROUP/SAMPLE in a training group, such as 7/0, means its newest attempt. Any other name is
// already an id. Returns INVALID_ARGUMENT for digits and slashes that do not form GROUP/SAMPLE, and NOT_FOUND if no
// such episode is stored.
absl::StatusOr<std::string> ResolveEpisode(datapool::Client& pool, const std::string& name);

}  // namespace ingot::app
