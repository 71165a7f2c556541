#include "app/record/stored_episodes.h"

#include <cstdlib>

namespace ingot::app {

absl::StatusOr<bool> VisitEpisodes(datapool::Client& pool, v1::EpisodePurpose purpose, int limit,
                                   const std::function<void(const v1::Episode& episode)>& visit) {
  v1::ListEpisodesRequest request;
  request.set_purpose(purpose);
  request.set_last_group(-1);
  request.set_all_attempts(true);
  int visited = 0;
  while (true) {
    request.set_limit(limit == 0 ? 0 : limit - visited);
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pool.ListEpisodes(request));
    for (const v1::Episode& episode : page.episodes()) visit(episode);
    visited += page.episodes_size();
    if (!page.more() || (limit > 0 && visited == limit)) return page.more();
    request.set_after(page.next());
  }
}

absl::StatusOr<std::string> ResolveEpisode(datapool::Client& pool, const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos || name.find_first_not_of("0123456789/") != std::string::npos || name.size() > 18) {
    return name;
  }
  if (slash == 0 || slash + 1 == name.size() || name.find('/', slash + 1) != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "': GROUP/SAMPLE is expected, such as 7/0"));
  }
  const int64_t group = std::strtoll(name.substr(0, slash).c_str(), nullptr, 10);
  const int64_t sample = std::strtoll(name.substr(slash + 1).c_str(), nullptr, 10);
  std::string newest;
  datapool::EpisodePages pages(pool, v1::PURPOSE_TRAIN, group, group);
  while (!pages.done()) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) {
      if (episode.ref().sample_index() == sample) newest = episode.episode_id();
    }
  }
  if (!newest.empty()) return newest;
  return absl::NotFoundError(absl::StrCat("no episode of group ", group, ", sample ", sample, " is stored"));
}

}  // namespace ingot::app
