#include "app/record/stored_episodes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/task_domain.h"
#include "tree/episode_return.h"

namespace ingot::app {

absl::Status VisitEpisodes(datapool::Client& pool, v1::EpisodePurpose purpose,
                           const std::function<void(const v1::Episode& episode)>& visit) {
  for (datapool::EpisodePages pages(pool, purpose, 0, -1); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) visit(episode);
  }
  return absl::OkStatus();
}

bool EpisodeFilter::Accepts(const v1::Episode& episode) const {
  if (!domain.empty() && base::DomainOf(episode.task().domain()) != domain) return false;
  if (!scaffold.empty() && episode.scaffold() != scaffold) return false;
  if (groups.has_value() && !groups->contains(episode.ref().group_id())) return false;
  const bool any = !std::isfinite(min_reward) && !std::isfinite(max_reward);
  if (any) return true;
  const double reward = tree::ReturnOf(episode);
  const bool judged = episode.state() == v1::EPISODE_FINISHED || episode.state() == v1::EPISODE_FAILED;
  return judged && reward >= min_reward && reward <= max_reward;
}

absl::StatusOr<EpisodeList> NewestEpisodes(datapool::Client& pool, v1::EpisodePurpose purpose, size_t limit,
                                           const EpisodeFilter& filter) {
  EpisodeList list;
  const auto rank = [purpose](const v1::Episode& episode) {
    return purpose == v1::PURPOSE_SERVE ? episode.opened_unix_ns() : episode.ref().group_id();
  };
  std::multimap<int64_t, v1::Episode> newest;  // by rank, then in pool order
  INGOT_RETURN_IF_ERROR(VisitEpisodes(pool, purpose, [&](const v1::Episode& episode) {
    if (!filter.Accepts(episode)) return;
    newest.emplace(rank(episode), episode)->second.mutable_task()->clear_payload_json();
    if (limit == 0 || newest.size() <= limit) return;
    newest.erase(newest.begin());
    list.more = true;
  }));
  for (auto& [of, episode] : newest) list.episodes.push_back(std::move(episode));
  std::stable_sort(list.episodes.begin(), list.episodes.end(),
                   [&rank](const v1::Episode& a, const v1::Episode& b) { return rank(a) > rank(b); });
  return list;
}

absl::StatusOr<std::string> ResolveEpisode(datapool::Client& pool, const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos || name.find_first_not_of("0123456789/") != std::string::npos || name.size() > 18) {
    return name;
  }
  if (slash == 0 || slash + 1 == name.size() || name.find('/', slash + 1) != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "': it must be GROUP/SAMPLE, such as 7/0"));
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
