// Finds episodes in a pool, for `ingot inspect`.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "datapool/client.h"

namespace ingot::app {

// Visits the first `limit` episodes (0 = all) of a purpose, every attempt, in the order of group, sample and attempt.
// Returns whether there are more.
absl::StatusOr<bool> VisitEpisodes(datapool::Client& pool, v1::EpisodePurpose purpose, int limit,
                                   const std::function<void(const v1::Episode& episode)>& visit);

// The id of an episode: for GROUP/SAMPLE of a training group, such as 7/0, its newest attempt's; any other name is an
// id already. INVALID_ARGUMENT: digits and slashes that are not GROUP/SAMPLE; NOT_FOUND: no such episode is stored.
absl::StatusOr<std::string> ResolveEpisode(datapool::Client& pool, const std::string& name);

}  // namespace ingot::app
