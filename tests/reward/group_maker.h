// Makes groups of finished episodes for tests of reward terms.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/checksum.h"
#include "proto/tree.pb.h"

namespace ingot::reward {

// Adds a finished episode with this outcome; its sample index is its place.
inline v1::EpisodeTree& AddEpisode(v1::Group& group, double outcome) {
  v1::EpisodeTree& tree = *group.add_episodes();
  v1::Episode& episode = *tree.mutable_episode();
  const int index = group.episodes_size() - 1;
  episode.set_episode_id("episode" + std::to_string(index));
  episode.mutable_ref()->set_group_id(group.group_id());
  episode.mutable_ref()->set_sample_index(index);
  episode.set_state(v1::EPISODE_FINISHED);
  episode.set_reward(outcome);
  *episode.mutable_task() = group.task();
  return tree;
}

// Adds a call that sampled these ids.
inline v1::Call& AddCall(v1::EpisodeTree& tree, const std::vector<int32_t>& ids) {
  v1::Call& call = *tree.add_calls();
  call.set_call_id(tree.episode().episode_id() + "-call" + std::to_string(tree.calls_size() - 1));
  call.set_episode_id(tree.episode().episode_id());
  call.set_sequence(tree.calls_size() - 1);
  v1::Segment segment;
  segment.set_source(v1::SOURCE_SAMPLED);
  for (const int32_t id : ids) segment.add_token_ids(id);
  const std::string key = base::ContentKey(segment.SerializeAsString());
  call.add_sampled_keys(key);
  (*tree.mutable_segments())[absl::BytesToHexString(key)] = segment;
  return call;
}

// A call of so many tokens, all different.
inline v1::Call& AddCall(v1::EpisodeTree& tree, int32_t tokens) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokens; ++id) ids.push_back(id);
  return AddCall(tree, ids);
}

}  // namespace ingot::reward
