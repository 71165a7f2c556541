#include "gateway/lifecycle/episode_access.h"

#include <map>

#include "gateway/api/api_error.h"
#include "gateway/episodes/episode_key.h"

namespace ingot::gateway {

absl::StatusOr<std::shared_ptr<Episode>> EpisodeAccess::FindByKey(const std::string& episode_id,
                                                                  const std::string& key) {
  const int64_t losses = open_.losses();
  INGOT_ASSIGN_OR_RETURN(const std::string elsewhere, placement_.Place({.api_key = {}, .episode = episode_id}));
  if (!elsewhere.empty()) return EpisodeElsewhere(episode_id, elsewhere);
  if (open_.Lookup(episode_id).none()) placement_.RecallEnd(episode_id);
  const OpenEpisodes::Known known = open_.Lookup(episode_id);
  if (known.none()) {
    if (losses != known.losses) return EpisodeElsewhere(episode_id);  // possibly lost since it was placed
    return ApiError(404, "episode_not_found", "", "there is no such episode");
  }
  if (key.empty()) {
    return ApiError(401, "invalid_api_key", "",
                    "this request needs the episode owner's key: Authorization: Bearer KEY");
  }
  const KeyHashes hashes(key);
  if (!core_.admin_key.Is(key) && hashes.as_owner != known.key_hash) {
    return ApiError(403, "invalid_api_key", "",
                    hashes.as_caller == known.key_hash
                        ? "this key can only call models: use the owner's key to reward or end the episode"
                        : "the API key is not this episode's");
  }
  if (known.open == nullptr) return EpisodeOver(episode_id, known.visible_detail);
  return known.open;
}

absl::StatusOr<std::shared_ptr<Episode>> EpisodeAccess::FindForCall(const Caller& caller) {
  if (core_.admin_key.Is(caller.api_key)) {
    return ApiError(403, "invalid_api_key", "", "the admin key cannot call models: send an episode's key");
  }
  const int64_t losses = open_.losses();
  INGOT_ASSIGN_OR_RETURN(const std::string elsewhere, placement_.Place(caller));
  if (!elsewhere.empty()) return EpisodeElsewhere(caller.episode, elsewhere);
  const KeyHashes hashes(caller.api_key);
  if (!caller.episode.empty()) {
    const OpenEpisodes::Known known = open_.Lookup(caller.episode);
    if (known.none()) {
      if (losses != known.losses) return EpisodeElsewhere(caller.episode);
      return ApiError(404, "episode_not_found", "", "the URL does not name an open episode");
    }
    if (caller.api_key.empty()) {
      return ApiError(401, "invalid_api_key", "",
                      "no API key was sent: send the episode's key (Authorization: Bearer KEY), or call /s/KEY/v1");
    }
    if (hashes.as_owner != known.key_hash && hashes.as_caller != known.key_hash) {
      return ApiError(403, "invalid_api_key", "",
                      "the API key does not belong to the URL's episode: send that episode's key");
    }
    if (known.open == nullptr) return EpisodeOver(caller.episode, known.visible_detail);
    return known.open;
  }
  const OpenEpisodes::Known known = open_.Lookup(hashes);
  if (known.open != nullptr) return known.open;
  if (!known.ended.empty()) return EpisodeOver(known.ended, known.visible_detail);
  if (losses != known.losses) return EpisodeElsewhere("of this key");
  const bool serving = core_.parts.admission == nullptr;
  if (serving || (core_.options.auto_episodes && !caller.api_key.empty())) return nullptr;
  if (caller.api_key.empty()) {
    return ApiError(401, "invalid_api_key", "", "no API key was sent: send an episode's key, or call /s/KEY/v1");
  }
  return ApiError(401, "invalid_api_key", "",
                  "no open episode has this API key: open one with POST /ingot/v1/episodes");
}

absl::StatusOr<v1::ReadMessagesResponse> EpisodeAccess::ReadMessages(const v1::ReadMessagesRequest& request) {
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<Episode> episode, FindByKey(request.episode_id(), request.api_key()));
  v1::ReadMessagesResponse response;
  if (core_.parts.pool == nullptr) return response;
  v1::GetEpisodeRequest get;
  get.set_episode_id(episode->id());
  get.set_with_calls(true);
  const auto stored = core_.parts.pool->GetEpisode(get);
  if (!stored.ok()) return base::Annotate(stored.status(), "reading the messages of an episode");
  std::map<int32_t, std::string> in_order;
  for (const v1::Call& call : stored->calls()) in_order[call.sequence()] = call.delivered_json();
  for (const auto& [sequence, message] : in_order) {
    if (!message.empty()) response.add_messages_json(message);
  }
  return response;
}

}  // namespace ingot::gateway
