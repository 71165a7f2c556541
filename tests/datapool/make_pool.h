// Makers of requests and pools for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "datapool/client.h"
#include "datapool/store.h"
#include "tree/segment_key.h"

namespace ingot::datapool::testing {

// A temporary folder that the destructor deletes. It is in memory where possible, since opening a pool does many fsyncs.
class TempDir {
 public:
  TempDir() {
    const bool memory = ::access("/dev/shm", W_OK) == 0;
    std::string pattern =
        (memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/ingot-pool-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline StoreOptions QuickOptions(const std::string& path) {
  StoreOptions options;
  options.path = path;
  options.sync = false;
  options.cache_bytes = 1 << 20;
  options.write_buffer_bytes = 1 << 20;
  options.retry_after_error_s = 0;
  return options;
}

inline v1::StoreEpisodeRequest Open(const std::string& id, int64_t group, int sample, int attempt = 0,
                                    v1::EpisodePurpose purpose = v1::PURPOSE_TRAIN) {
  v1::StoreEpisodeRequest request;
  v1::Episode& episode = *request.mutable_episode();
  episode.set_episode_id(id);
  episode.mutable_ref()->set_group_id(group);
  episode.mutable_ref()->set_sample_index(sample);
  episode.mutable_ref()->set_attempt(attempt);
  episode.set_purpose(purpose);
  episode.mutable_task()->set_task_id("task-" + std::to_string(group));
  episode.set_state(v1::EPISODE_OPEN);
  return request;
}

inline v1::Segment Prompt(std::vector<int32_t> ids) {
  v1::Segment segment;
  segment.set_source(v1::SOURCE_PROMPT);
  segment.mutable_token_ids()->Add(ids.begin(), ids.end());
  return segment;
}

inline v1::Segment Sampled(std::vector<int32_t> ids, int64_t version = 0) {
  v1::Segment segment;
  segment.set_source(v1::SOURCE_SAMPLED);
  segment.mutable_token_ids()->Add(ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i) segment.add_logprobs(-0.5f - static_cast<float>(i));
  v1::VersionRun& run = *segment.add_versions();
  run.set_version(version);
  run.set_count(static_cast<int>(ids.size()));
  return segment;
}

// A call with all of its segments.
inline v1::AppendCallRequest Append(const std::string& episode, int sequence, const std::vector<v1::Segment>& context,
                                    const std::vector<v1::Segment>& sampled) {
  v1::AppendCallRequest request;
  v1::Call& call = *request.mutable_call();
  call.set_call_id(episode + "/" + std::to_string(sequence));
  call.set_episode_id(episode);
  call.set_sequence(sequence);
  call.mutable_sampling()->set_temperature(1);
  call.set_finish(v1::FINISH_STOP);
  for (const v1::Segment& segment : context) {
    call.add_context_keys(tree::SegmentKey(segment));
    call.set_context_tokens(call.context_tokens() + segment.token_ids_size());
    *request.add_segments() = segment;
  }
  for (const v1::Segment& segment : sampled) {
    call.add_sampled_keys(tree::SegmentKey(segment));
    *request.add_segments() = segment;
  }
  return request;
}

inline v1::StoreRewardRequest Reward(const std::string& id, double reward,
                                     const std::map<std::string, double>& call_rewards = {}) {
  v1::StoreRewardRequest request;
  request.set_episode_id(id);
  request.set_reward(reward);
  request.mutable_call_rewards()->insert(call_rewards.begin(), call_rewards.end());
  return request;
}

inline v1::StoreEndRequest End(const std::string& id, v1::EpisodeState state = v1::EPISODE_FINISHED,
                               double reward = 1) {
  v1::StoreEndRequest request;
  request.set_episode_id(id);
  request.set_state(state);
  request.set_reward(reward);
  return request;
}

inline absl::StatusOr<v1::EpisodeTree> Get(Client& pool, const std::string& id, bool with_calls = true) {
  v1::GetEpisodeRequest request;
  request.set_episode_id(id);
  request.set_with_calls(with_calls);
  return pool.GetEpisode(request);
}

inline absl::StatusOr<v1::Group> GetGroup(Client& pool, int64_t group, v1::EpisodePurpose purpose = v1::PURPOSE_TRAIN) {
  v1::GetGroupRequest request;
  request.set_group_id(group);
  request.set_purpose(purpose);
  return pool.GetGroup(request);
}

inline v1::AppendJournalRequest BatchRecord(int64_t step, const std::vector<int64_t>& groups) {
  v1::AppendJournalRequest request;
  v1::Batch& batch = *request.add_records()->mutable_batch();
  batch.set_step(step);
  batch.mutable_group_ids()->Add(groups.begin(), groups.end());
  return request;
}

inline v1::AppendJournalRequest ClosedRecord(int64_t group) {
  v1::AppendJournalRequest request;
  request.add_records()->mutable_closed()->set_group_id(group);
  return request;
}

inline int64_t TrimBelow(Client& pool, int64_t step) {
  v1::TrimRequest request;
  request.set_checkpoint_step(step);
  return pool.Trim(request).value().episodes_deleted();
}

}  // namespace ingot::datapool::testing
