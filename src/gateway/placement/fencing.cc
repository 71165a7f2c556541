#include "gateway/placement/fencing.h"

#include <utility>

#include "base/log.h"
#include "gateway/api/api_error.h"

namespace ingot::gateway {
namespace {

// Keys and their permissions never change. Other non-retryable errors may depend on the episode's state.
bool IsOfMemory(const absl::Status& rejection) {
  const int http = HttpStatusOf(rejection);
  return !rejection.ok() && !MayRetry(rejection) && http != 401 && http != 403;
}

}  // namespace

absl::Status Fencing::GiveUp(const std::shared_ptr<Episode>& episode) {
  episode->MarkTaken();
  INGOT_LOG(warn, "episode {} continues on another gateway, because this gateway was unresponsive for too long",
            episode->id());
  if (!open_.ForgetTaken(episode)) snapshot_requests_.Forget(episode->id());
  return EpisodeElsewhere(episode->id());
}

absl::Status Fencing::CheckServed(const std::shared_ptr<Episode>& episode) {
  if (episode == nullptr || core_.parts.peers == nullptr || core_.parts.pool == nullptr) return absl::OkStatus();
  if (episode->taken()) return GiveUp(episode);
  v1::GetEpisodeRequest get;
  get.set_episode_id(episode->id());
  const auto stored = core_.parts.pool->GetEpisode(get);
  if (absl::IsNotFound(stored.status())) return absl::OkStatus();  // its group was deleted, so no gateway serves it
  if (absl::IsDataLoss(stored.status())) {
    return base::Annotate(stored.status(), "whether this gateway still serves the episode");
  }
  if (!stored.ok()) {
    return ApiError(503, "pool_unreachable", "",
                    absl::StrCat("cannot check with the pool whether this gateway still serves episode ", episode->id(),
                                 " (", stored.status().message(), "): send the request again"));
  }
  const v1::Episode& record = stored->episode();
  const bool served =
      record.gateway_token() == episode->record().gateway_token() && record.gateway() == core_.parts.name;
  return served ? absl::OkStatus() : GiveUp(episode);
}

absl::Status Fencing::Confirmed(const std::shared_ptr<Episode>& episode, absl::Status rejection) {
  if (!IsOfMemory(rejection)) return rejection;
  INGOT_RETURN_IF_ERROR(CheckServed(episode));
  return rejection;
}

bool Fencing::IsServed(const std::string& episode_id) {
  const std::shared_ptr<Episode> episode = open_.Find(episode_id);
  // On an error, the request is sent anyway because the end includes the token.
  if (episode != nullptr) (void)CheckServed(episode);
  if (episode != nullptr && !episode->taken()) return true;
  snapshot_requests_.Forget(episode_id);
  return false;
}

absl::Status Fencing::SettleCalls(const std::shared_ptr<Episode>& episode) {
  constexpr char kWhat[] = "it is not known which calls of the episode are recorded: send the reward again";
  const auto deadline = core_.parts.clock->Now() + base::FromSeconds(core_.options.end_wait_s);
  for (const v1::AppendCallRequest& lost : episode->LostAppends()) {
    // Resending it settles whether it is stored. Reading the pool could miss an append that is still in flight.
    const absl::Status again = core_.parts.pool->AppendCall(lost);
    if (absl::IsAborted(again)) return GiveUp(episode);
    if (!again.ok() && !datapool::IsRejection(again)) return base::Annotate(again, kWhat);
    episode->SettleAppend(lost.call(), again);
    // Other rewards are waiting for this one.
    if (core_.parts.clock->Now() > deadline) return absl::UnavailableError(kWhat);
  }
  if (!episode->HasUnknownCalls()) return absl::OkStatus();
  v1::GetEpisodeRequest get;
  get.set_episode_id(episode->id());
  get.set_with_calls(true);
  const auto stored = core_.parts.pool->GetEpisode(get);
  if (!stored.ok()) return base::Annotate(stored.status(), kWhat);
  if (stored->episode().gateway_token() != episode->record().gateway_token()) return GiveUp(episode);
  episode->NoteCalls(*stored);
  return absl::OkStatus();
}

absl::Status Fencing::ReadReward(const std::shared_ptr<Episode>& episode) {
  if (core_.parts.pool == nullptr || !episode->lacks_reward()) return absl::OkStatus();
  v1::GetEpisodeRequest get;
  get.set_episode_id(episode->id());
  const auto stored = core_.parts.pool->GetEpisode(get);
  if (absl::IsNotFound(stored.status())) return absl::OkStatus();  // the end will be rejected
  if (!stored.ok()) return base::Annotate(stored.status(), "reading the reward of an episode that is to end");
  if (stored->episode().gateway_token() != episode->record().gateway_token()) return GiveUp(episode);
  episode->NoteStored(stored->episode());
  return absl::OkStatus();
}

}  // namespace ingot::gateway
