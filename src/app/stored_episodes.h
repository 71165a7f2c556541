// Finds episodes in a pool, for those who look at a run.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "datapool/client.h"

namespace ingot::app {

// Visits the first `limit` episodes (0: all) of a purpose, every attempt, in the order of group, sample and attempt,
// and says whether there are more.
absl::StatusOr<bool> VisitEpisodes(datapool::Client& pool, v1::EpisodePurpose purpose, int limit,
                                   const std::function<void(const v1::Episode& episode)>& visit);

// GROUP/SAMPLE of a training group, such as 7/0, to the id of its newest attempt; anything else is an id already.
// INVALID_ARGUMENT: digits and slashes that are not GROUP/SAMPLE; NOT_FOUND: none is stored.
absl::StatusOr<std::string> ResolveEpisode(datapool::Client& pool, const std::string& name);

}  // namespace ingot::app
