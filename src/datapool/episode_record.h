// The two stored records of an episode. A task may be large, so the opening is written once and rarely read. Appending
// a call, storing a reward, and ending the episode read and write only the small progress record.
//
//   opening    Episode as it was opened, without the progress fields
//   progress   Episode with id, ref, and purpose, and the fields that change: state, reward, signals, facts,
//              call_rewards, reward_number, detail, cause, grade, ended_unix_ns, gateway, gateway_token
//
// `Source` is a Database::Reader or Batch. Returns NOT_FOUND with the id of a missing episode, or DATA_LOSS with the id
// of a damaged one.
#pragma once

#include <string>

#include "base/status.h"
#include "datapool/keys.h"
#include "datapool/serialize.h"
#include "proto/tree.pb.h"

namespace ingot::datapool {

inline std::string Describe(const v1::Episode& episode) {
  return absl::StrCat("episode '", episode.episode_id(), "' (group ", episode.ref().group_id(), ", sample ",
                      episode.ref().sample_index(), ", attempt ", episode.ref().attempt(), ")");
}

inline v1::Episode ProgressOf(const v1::Episode& episode) {
  v1::Episode progress;
  progress.set_episode_id(episode.episode_id());
  *progress.mutable_ref() = episode.ref();
  progress.set_purpose(episode.purpose());
  progress.set_state(episode.state());
  if (episode.has_reward()) progress.set_reward(episode.reward());
  *progress.mutable_signals() = episode.signals();
  *progress.mutable_facts() = episode.facts();
  *progress.mutable_call_rewards() = episode.call_rewards();
  progress.set_reward_number(episode.reward_number());
  progress.set_detail(episode.detail());
  progress.set_cause(episode.cause());
  if (episode.has_grade()) *progress.mutable_grade() = episode.grade();
  progress.set_ended_unix_ns(episode.ended_unix_ns());
  progress.set_gateway(episode.gateway());
  progress.set_gateway_token(episode.gateway_token());
  return progress;
}

// Clears the progress fields, which an opening does not store.
inline void ClearProgress(v1::Episode& episode) {
  episode.clear_state();
  episode.clear_reward();
  episode.clear_signals();
  episode.clear_facts();
  episode.clear_call_rewards();
  episode.clear_reward_number();
  episode.clear_detail();
  episode.clear_cause();
  episode.clear_grade();
  episode.clear_ended_unix_ns();
  episode.clear_gateway();
  episode.clear_gateway_token();
}

// Returns ABORTED if another gateway took over the episode from the gateway with this token.
inline absl::Status CheckGateway(const v1::Episode& progress, int64_t token) {
  if (token >= progress.gateway_token()) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(Describe(progress), " is now served by ", progress.gateway(), " under token ",
                                         progress.gateway_token(), "; this request has token ", token));
}

inline absl::Status NoSuchEpisode(const std::string& episode_id) {
  return absl::NotFoundError("episode '" + episode_id + "' is not in the pool: it was never opened, or it was trimmed");
}

template <typename Source>
absl::StatusOr<v1::Episode> LoadEpisodeRecord(Source& source, const std::string& key, const std::string& episode_id) {
  const absl::StatusOr<std::string> stored = source.Get(kEpisodes, key);
  if (absl::IsNotFound(stored.status())) return NoSuchEpisode(episode_id);
  INGOT_RETURN_IF_ERROR(stored.status());
  return ParseRecord<v1::Episode>(*stored, "episode '" + episode_id + "'");
}

template <typename Source>
absl::StatusOr<v1::Episode> LoadOpening(Source& source, const std::string& episode_id) {
  return LoadEpisodeRecord(source, episode_id, episode_id);
}

template <typename Source>
absl::StatusOr<v1::Episode> LoadProgress(Source& source, const std::string& episode_id) {
  return LoadEpisodeRecord(source, ProgressKey(episode_id), episode_id);
}

template <typename Source>
absl::StatusOr<v1::Episode> LoadEpisode(Source& source, const std::string& episode_id) {
  INGOT_ASSIGN_OR_RETURN(const v1::Episode progress, LoadProgress(source, episode_id));
  INGOT_ASSIGN_OR_RETURN(v1::Episode episode, LoadOpening(source, episode_id));
  episode.MergeFrom(progress);
  return episode;
}

}  // namespace ingot::datapool
