#include "scheduler/handed_attempts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "tree/episode_return.h"

namespace ingot::scheduler {

void HandedAttempts::Add(const v1::Ticket& ticket, const std::string& gateway, const JournaledRun& run) {
  // Attempts may end without a report. Entries of ended attempts are removed once they are the majority.
  if (gateways_.size() > 2 * static_cast<size_t>(run.running()) + 64) {
    std::set<Place> live;
    for (const v1::EpisodeRef& ref : run.groups().Running()) live.insert(PlaceOf(v1::PURPOSE_TRAIN, ref));
    for (const v1::EpisodeRef& ref : run.evals().Running()) live.insert(PlaceOf(v1::PURPOSE_EVAL, ref));
    std::erase_if(gateways_, [&](const auto& entry) { return !live.contains(entry.first); });
  }
  gateways_[PlaceOf(ticket.purpose(), ticket.ref())] = gateway;
}

bool HandedAttempts::Remove(v1::EpisodePurpose purpose, const v1::EpisodeRef& ref) {
  return gateways_.erase(PlaceOf(purpose, ref)) > 0;
}

absl::StatusOr<v1::ReconcileResponse> HandedAttempts::Reconcile(const std::string& gateway, datapool::Client& pool,
                                                                JournaledRun& run) const {
  v1::ReconcileResponse found;
  INGOT_RETURN_IF_ERROR(ReconcileAttempts(gateway, v1::PURPOSE_TRAIN, run.groups().Running(), pool, run, found));
  INGOT_RETURN_IF_ERROR(ReconcileAttempts(gateway, v1::PURPOSE_EVAL, run.evals().Running(), pool, run, found));
  if (found.ended() + found.lost() > 0) {
    INGOT_LOG(info,
              "{} was restarted or replaced: {} episodes continue, {} had ended, and {} are lost and will be retried",
              gateway, found.running(), found.ended(), found.lost());
  }
  return found;
}

absl::Status HandedAttempts::ReconcileAttempts(const std::string& gateway, v1::EpisodePurpose purpose,
                                               const std::vector<v1::EpisodeRef>& running, datapool::Client& pool,
                                               JournaledRun& run, v1::ReconcileResponse& found) const {
  if (running.empty()) return absl::OkStatus();
  const auto [first, last] = std::minmax_element(
      running.begin(), running.end(), [](const auto& a, const auto& b) { return a.group_id() < b.group_id(); });
  std::map<Place, v1::Episode> stored;
  for (datapool::EpisodePages pages(pool, purpose, first->group_id(), last->group_id()); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(v1::ListEpisodesResponse page, pages.Next());
    for (v1::Episode& episode : *page.mutable_episodes()) stored[PlaceOf(purpose, episode.ref())] = std::move(episode);
  }
  for (const v1::EpisodeRef& ref : running) {
    const auto it = stored.find(PlaceOf(purpose, ref));
    const auto handed = gateways_.find(PlaceOf(purpose, ref));
    // Another gateway is about to store this attempt.
    if (it == stored.end() && handed != gateways_.end() && handed->second != gateway) continue;
    if (it != stored.end() && it->second.state() == v1::EPISODE_OPEN) {
      found.set_running(found.running() + 1);
      continue;
    }
    v1::ReportEpisodeEndRequest ended;
    *ended.mutable_ref() = ref;
    ended.set_purpose(purpose);
    if (it == stored.end()) {
      ended.set_state(v1::EPISODE_FENCED);
      ended.set_detail("its gateway was lost before it was stored");
      found.set_lost(found.lost() + 1);
    } else {
      ended.set_state(it->second.state());
      ended.set_reward(tree::ReturnOf(it->second));
      ended.set_detail(it->second.detail());
      ended.set_cause(it->second.cause());
      ended.set_episode_id(it->second.episode_id());
      ended.set_runner(it->second.runner());
      ended.set_scaffold(it->second.scaffold());
      found.set_ended(found.ended() + 1);
    }
    INGOT_RETURN_IF_ERROR(run.EndEpisode(ended).status());
  }
  return absl::OkStatus();
}

}  // namespace ingot::scheduler
