#include "gateway/lifecycle/abandoned_episodes.h"

#include "base/log.h"
#include "base/printable.h"

namespace ingot::gateway {
namespace {

// Returns the end for an episode whose runner was restarted.
Episode::RequestedEnd LostRunner() {
  return {.state = v1::EPISODE_FENCED, .detail = "its runner was restarted", .finish_if_judged = true};
}

// Does not return FAILED_PRECONDITION, which would mean that the run is over.
absl::Status RunnerReplaced(const std::string& runner) {
  return absl::AbortedError(absl::StrCat("runner '", base::Printable(runner, {.max_bytes = 80}),
                                         "' was started again, so its earlier instance can no longer open episodes. If "
                                         "that instance is still running, stop it or rename one of them"));
}

}  // namespace

absl::Status AbandonedEpisodes::EndEarlier(const std::string& runner, const std::string& incarnation) {
  const Incarnations::Start start = open_.SeeIncarnation(runner, incarnation);
  if (start == Incarnations::Start::kPast) return RunnerReplaced(runner);
  if (start == Incarnations::Start::kSame) return absl::OkStatus();
  if (const absl::Status taken = TakeFromOthers(runner, incarnation); !taken.ok()) {
    INGOT_LOG(warn, "abandoned episodes at other gateways could not be ended: {}", taken.ToString());
  }
  const OpenEpisodes::Abandoned abandoned = open_.AbandonedBy(runner, incarnation);
  for (const std::shared_ptr<Episode>& episode : abandoned.episodes) {
    const absl::Status status = ends_.End(episode, LostRunner(), false).status();
    if (!status.ok()) INGOT_LOG(warn, "abandoned episode {} could not be ended: {}", episode->id(), status.ToString());
  }
  return abandoned.newest == incarnation ? absl::OkStatus() : RunnerReplaced(runner);
}

absl::Status AbandonedEpisodes::EndIfAbandoned(const std::shared_ptr<Episode>& opened) {
  const v1::Episode& record = opened->record();
  const auto newest = open_.NewestIncarnation(record.runner());
  if (!newest.has_value() || *newest == record.incarnation()) return absl::OkStatus();
  const absl::Status status = ends_.End(opened, LostRunner(), false).status();
  if (!status.ok()) INGOT_LOG(warn, "abandoned episode {} could not be ended: {}", opened->id(), status.ToString());
  return RunnerReplaced(record.runner());
}

absl::Status AbandonedEpisodes::TakeFromOthers(const std::string& runner, const std::string& incarnation) {
  if (core_.parts.peers == nullptr || core_.parts.pool == nullptr) return absl::OkStatus();
  for (const v1::EpisodePurpose purpose : {v1::PURPOSE_TRAIN, v1::PURPOSE_EVAL}) {
    for (datapool::EpisodePages pages(*core_.parts.pool, purpose, 0, -1, true); !pages.done();) {
      INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
      for (const v1::Episode& episode : page.episodes()) {
        if (episode.runner() != runner || episode.incarnation() == incarnation) continue;
        if (episode.gateway() == core_.parts.name && open_.Find(episode.episode_id()) != nullptr) continue;
        const absl::Status taken = placement_.TakeOver(episode);
        if (!absl::IsFailedPrecondition(taken)) INGOT_RETURN_IF_ERROR(taken);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace ingot::gateway
