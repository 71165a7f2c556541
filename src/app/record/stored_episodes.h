// Finds episodes in a pool, for `ingot inspect`.
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

// Visits the episodes of a purpose, every attempt, in the order of group, sample and attempt. Errors are the pool's.
absl::Status VisitEpisodes(datapool::Client& pool, v1::EpisodePurpose purpose,
                           const std::function<void(const v1::Episode& episode)>& visit);

// Which episodes a list shows.
struct EpisodeFilter {
  double min_reward = -std::numeric_limits<double>::infinity();  // of finished and failed episodes
  double max_reward = std::numeric_limits<double>::infinity();
  std::string domain, scaffold;             // empty = any
  std::optional<std::set<int64_t>> groups;  // nullopt = any

  bool Accepts(const v1::Episode& episode) const;
};

// Episodes without their tasks' payloads.
struct EpisodeList {
  std::vector<v1::Episode> episodes;
  bool more = false;  // accepted ones are left out
};

// The episodes of the newest groups, those first: at most `limit` (0 = all), and within a group in the order of sample
// and attempt. Served sessions have no groups: those opened last come first. Reads all episodes of the purpose. Errors
// are the pool's.
absl::StatusOr<EpisodeList> NewestEpisodes(datapool::Client& pool, v1::EpisodePurpose purpose, size_t limit,
                                           const EpisodeFilter& filter);

// The id of an episode: for GROUP/SAMPLE of a training group, such as 7/0, its newest attempt's; any other name is an
// id already. INVALID_ARGUMENT: digits and slashes that are not GROUP/SAMPLE; NOT_FOUND: no such episode is stored.
absl::StatusOr<std::string> ResolveEpisode(datapool::Client& pool, const std::string& name);

}  // namespace ingot::app
