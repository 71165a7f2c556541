#include "app/learning/answer_groups.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/checksum.h"
#include "tree/forest.h"
#include "tree/segment_key.h"

namespace ingot::app {
namespace {

// Adds the prompt as segments of the episode, and their keys to the call.
void AddPrompt(const tree::TokenPath& prompt, v1::EpisodeTree& tree, v1::Call& call) {
  for (const tree::TokenRun& run : prompt.Runs()) {
    v1::Segment segment;
    segment.set_source(v1::SOURCE_PROMPT);
    segment.mutable_token_ids()->Add(run.ids.begin(), run.ids.end());
    if (!run.content.empty()) {
      v1::Placeholders& all = *segment.add_placeholders();
      all.set_count(static_cast<int32_t>(run.ids.size()));
      all.set_content(std::string(run.content));
    }
    const std::string key = tree::SegmentKey(segment);
    call.add_context_keys(key);
    (*tree.mutable_segments())[base::Hex(key)] = std::move(segment);
  }
}

}  // namespace

absl::StatusOr<v1::Group> GroupOf(const v1::EpisodeTree& conversation, const RatedAnswer& answer, int64_t id) {
  const auto& calls = conversation.calls();
  const auto found = std::find_if(calls.begin(), calls.end(),
                                  [&answer](const v1::Call& call) { return call.call_id() == answer.call_id; });
  if (found == calls.end()) {
    return absl::DataLossError(
        absl::StrCat("conversation ", answer.episode_id, " in the pool lacks answer ", answer.call_id));
  }
  INGOT_ASSIGN_OR_RETURN(const tree::CallPath path,
                         tree::CallPathOf(conversation, static_cast<int>(found - calls.begin())));
  v1::Group group;
  group.set_group_id(id);
  v1::EpisodeTree& tree = *group.add_episodes();
  v1::Episode& episode = *tree.mutable_episode();
  episode.set_episode_id(answer.call_id);
  episode.mutable_ref()->set_group_id(id);
  episode.set_purpose(v1::PURPOSE_TRAIN);
  episode.set_pinned_version(-1);
  episode.set_state(v1::EPISODE_FINISHED);
  episode.set_reward(answer.reward);
  episode.set_opened_unix_ns(found->times().arrival_unix_ns());
  episode.set_ended_unix_ns(found->times().end_unix_ns());
  v1::Call& call = *tree.add_calls();
  call = *found;
  call.set_episode_id(answer.call_id);
  call.set_sequence(0);
  call.clear_parent_call_id();
  call.clear_continued_segments();
  call.clear_context_keys();
  AddPrompt(path.context, tree, call);
  for (const std::string& key : found->sampled_keys()) {
    const std::string name = base::Hex(key);
    (*tree.mutable_segments())[name] = conversation.segments().at(name);  // CallPathOf has read it
  }
  return group;
}

absl::StatusOr<std::vector<v1::Group>> ReadGroups(datapool::Client& pool, const std::vector<RatedAnswer>& answers) {
  std::vector<v1::Group> groups;
  for (const RatedAnswer& answer : answers) {
    v1::GetEpisodeRequest get;
    get.set_episode_id(answer.episode_id);
    get.set_with_calls(true);
    INGOT_ASSIGN_OR_RETURN(const v1::EpisodeTree conversation, pool.GetEpisode(get));
    INGOT_ASSIGN_OR_RETURN(groups.emplace_back(), GroupOf(conversation, answer, std::ssize(groups)));
  }
  return groups;
}

}  // namespace ingot::app
