#include "gateway/placement/recovery.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/retry.h"
#include "gateway/peers.h"

namespace ingot::gateway {

absl::Status Recovery::Recover(const std::string& gone) {
  if (core_.parts.pool == nullptr || core_.parts.admission == nullptr) return absl::OkStatus();
  const bool alone = core_.parts.peers == nullptr;
  const std::string own = RoleOfGateway(core_.parts.name);
  std::vector<std::string> elsewhere;  // roles whose episodes stay where they are
  if (!alone) elsewhere = core_.parts.peers->Others();
  std::erase(elsewhere, gone);
  if (!gone.empty() && gone != own) elsewhere.push_back(own);
  int taken = 0, lost = 0;
  for (const v1::EpisodePurpose purpose : {v1::PURPOSE_TRAIN, v1::PURPOSE_EVAL}) {
    for (datapool::EpisodePages pages(*core_.parts.pool, purpose, 0, -1, true); !pages.done();) {
      INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
      for (const v1::Episode& episode : page.episodes()) {
        const std::string role = RoleOfGateway(episode.gateway());
        const bool stays = std::find(elsewhere.begin(), elsewhere.end(), role) != elsewhere.end();
        // If the pool stored a takeover but its response was lost, the episode has this gateway's name but is not
        // served.
        const bool own_name = episode.gateway() == core_.parts.name;
        if (!alone && (own_name ? open_.Find(episode.episode_id()) != nullptr : stays)) continue;
        const absl::Status status = alone ? ContinueAlone(episode.episode_id()) : placement_.TakeOver(episode);
        if (!alone && absl::IsFailedPrecondition(status)) continue;  // it has ended, or another gateway took it first
        ++(status.ok() ? taken : lost);
        if (!status.ok()) INGOT_RETURN_IF_ERROR(EndUnread(episode, status));
      }
    }
  }
  if (taken + lost > 0) {
    INGOT_LOG(info, "{} open episodes of an earlier gateway continue here; {} could not be read", taken, lost);
  }
  return absl::OkStatus();
}

absl::Status Recovery::EndUnread(const v1::Episode& episode, const absl::Status& why) {
  if (base::IsTransientOrMoved(why)) return why;  // for example on a full disk; it may be readable later
  INGOT_LOG(error, "open episode {} cannot be read, so its sample is retried: {}", episode.episode_id(),
            why.ToString());
  v1::StoreEndRequest end;
  end.set_episode_id(episode.episode_id());
  // Same token as TakeOverEpisode.
  if (core_.parts.peers != nullptr) end.set_gateway_token(episode.gateway_token() + 1);
  end.set_state(v1::EPISODE_FENCED);
  end.set_detail(absl::StrCat("its gateway could not read it: ", why.message()));
  end.set_ended_unix_ns(core_.parts.clock->UnixNanos());
  const absl::Status ended = core_.parts.pool->StoreEnd(end);
  if (base::IsTransientOrMoved(ended)) return ended;
  if (!ended.ok()) INGOT_LOG(error, "its end is not stored: {}", ended.ToString());
  return absl::OkStatus();
}

absl::Status Recovery::ContinueAlone(const std::string& episode_id) {
  v1::GetEpisodeRequest request;
  request.set_episode_id(episode_id);
  request.set_with_calls(true);
  INGOT_ASSIGN_OR_RETURN(v1::EpisodeTree tree, core_.parts.pool->GetEpisode(request));
  return placement_.Continue(std::move(tree));
}

}  // namespace ingot::gateway
