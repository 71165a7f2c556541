// An episode in the store, as two records: what it was opened with, whose task may be large, is written once, and what
// changes has a record of its own. So rewards and ends write, and appends read, the same whatever the task's size.
//
//   opening    the Episode as it was opened, without what changes; written by a schema before 3: all of it, then
//   progress   Episode with id, ref, state, reward, signals, call_rewards, detail and ended_unix_ns alone. An episode
//              of a schema before 3 has none until something changes.
//
// `Source` is a Database::Reader or Batch. Errors: NOT_FOUND names an episode that is not there, DATA_LOSS one that is
// damaged.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "datapool/keys.h"
#include "proto/tree.pb.h"

namespace ingot::datapool {

// DATA_LOSS names `what`.
template <typename Message>
absl::StatusOr<Message> ParseRecord(std::string_view bytes, const std::string& what) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError(what + " is damaged in the pool");
  }
  return message;
}

inline v1::Episode ProgressOf(const v1::Episode& episode) {
  v1::Episode progress;
  progress.set_episode_id(episode.episode_id());
  *progress.mutable_ref() = episode.ref();
  progress.set_state(episode.state());
  if (episode.has_reward()) progress.set_reward(episode.reward());
  *progress.mutable_signals() = episode.signals();
  *progress.mutable_call_rewards() = episode.call_rewards();
  progress.set_detail(episode.detail());
  progress.set_ended_unix_ns(episode.ended_unix_ns());
  return progress;
}

// Leaves what an opening has.
inline void ClearProgress(v1::Episode& episode) {
  episode.clear_state();
  episode.clear_reward();
  episode.clear_signals();
  episode.clear_call_rewards();
  episode.clear_detail();
  episode.clear_ended_unix_ns();
}

template <typename Source>
absl::StatusOr<v1::Episode> LoadOpening(Source& source, const std::string& episode_id) {
  const absl::StatusOr<std::string> stored = source.Get(kEpisodes, episode_id);
  if (absl::IsNotFound(stored.status())) {
    return absl::NotFoundError("episode '" + episode_id + "' is not in the pool: it was never opened, or trimmed");
  }
  INGOT_RETURN_IF_ERROR(stored.status());
  return ParseRecord<v1::Episode>(*stored, "episode '" + episode_id + "'");
}

template <typename Source>
absl::StatusOr<v1::Episode> LoadProgress(Source& source, const std::string& episode_id) {
  const std::string what = "episode '" + episode_id + "'";
  const absl::StatusOr<std::string> stored = source.Get(kEpisodes, ProgressKey(episode_id));
  if (stored.ok()) return ParseRecord<v1::Episode>(*stored, what);
  if (!absl::IsNotFound(stored.status())) return stored.status();
  INGOT_ASSIGN_OR_RETURN(const v1::Episode whole, LoadOpening(source, episode_id));
  if (whole.state() == v1::EPISODE_UNSPECIFIED) return absl::DataLossError(what + " has lost its state in the pool");
  return ProgressOf(whole);
}

template <typename Source>
absl::StatusOr<v1::Episode> LoadEpisode(Source& source, const std::string& episode_id) {
  INGOT_ASSIGN_OR_RETURN(const v1::Episode progress, LoadProgress(source, episode_id));
  INGOT_ASSIGN_OR_RETURN(v1::Episode episode, LoadOpening(source, episode_id));
  ClearProgress(episode);
  episode.MergeFrom(progress);
  return episode;
}

}  // namespace ingot::datapool
