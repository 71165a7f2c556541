// A pool in memory that exposes its contents, and waits or fails where a test requests it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/mutex.h"
#include "datapool/client.h"
#include "gateway/api/api_error.h"
#include "tree/contexts.h"
#include "tree/segment_key.h"

namespace ingot::gateway {

// Makes the checks of a real pool: every segment of a call is stored or comes with it, and its parent call is stored.
class MemoryPool final : public datapool::Client {
 public:
  absl::Status StoreEpisode(const v1::StoreEpisodeRequest& request) override {
    if (before_open) before_open(request.episode());
    base::MutexLock lock(mu_);
    if (!fail_open.ok()) return fail_open;
    episodes_[request.episode().episode_id()] = request.episode();
    return absl::OkStatus();
  }
  absl::Status AppendCall(const v1::AppendCallRequest& request) override {
    base::MutexLock lock(mu_);
    ++appends_waiting_;
    changed_.SignalAll();
    while (append_gate_) changed_.Wait(mu_);
    --appends_waiting_;
    if (!fail_append.ok()) return fail_append;
    const auto episode = episodes_.find(request.call().episode_id());
    if (episode == episodes_.end()) return absl::NotFoundError("no such episode");
    v1::Call* replaced = nullptr;
    for (v1::Call& held : calls_) {
      if (held.episode_id() != request.call().episode_id() || held.sequence() != request.call().sequence()) continue;
      if (held.SerializeAsString() == request.call().SerializeAsString()) return absl::OkStatus();
      replaced = Continues(request.call(), held) ? &held : nullptr;
      if (replaced == nullptr) return absl::AlreadyExistsError("another call has the sequence");
    }
    if (episode->second.state() != v1::EPISODE_OPEN) return absl::FailedPreconditionError("the episode has ended");
    for (const v1::Segment& segment : request.segments()) segments_[tree::SegmentKey(segment)] = segment;
    for (const auto* keys : {&request.call().context_keys(), &request.call().sampled_keys()}) {
      for (const std::string& key : *keys) {
        if (!segments_.contains(key)) return absl::FailedPreconditionError("a named segment is not stored");
      }
    }
    const auto prompt = tree::Contexts(calls_).KeysOf(request.call());
    if (!prompt.ok()) return prompt.status();
    int64_t ids = 0;
    for (const std::string& key : *prompt) ids += segments_.at(key).token_ids_size();
    if (ids != request.call().context_tokens()) return absl::InvalidArgumentError("context_tokens");
    if (replaced != nullptr) {
      ++slices_;
      *replaced = request.call();
    } else {
      calls_.push_back(request.call());
    }
    if (lost_answers_ == 0) return absl::OkStatus();
    --lost_answers_;
    return absl::UnavailableError("the answer is lost");
  }
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest&) override { return Unused(); }
  absl::Status StoreGrades(const v1::StoreGradesRequest&) override {
    return absl::UnimplementedError("no gateway grades a group");
  }
  absl::Status StoreReward(const v1::StoreRewardRequest& request) override {
    base::MutexLock lock(mu_);
    ++rewards_waiting_;
    changed_.SignalAll();
    while (reward_gate_) changed_.Wait(mu_);
    --rewards_waiting_;
    if (!fail_reward_.ok()) return fail_reward_;
    v1::Episode& episode = episodes_.at(request.episode_id());
    if (episode.state() != v1::EPISODE_OPEN) return absl::FailedPreconditionError("the episode has ended");
    for (const auto& [call, reward] : request.call_rewards()) {
      const bool held = std::any_of(calls_.begin(), calls_.end(), [&](const v1::Call& one) {
        return one.call_id() == call && one.episode_id() == request.episode_id();
      });
      if (!held) return absl::NotFoundError("the episode does not hold the call");
      (*episode.mutable_call_rewards())[call] = reward;
    }
    if (request.number() <= episode.reward_number()) return absl::FailedPreconditionError("a late reward");
    episode.set_reward_number(request.number());
    if (request.has_reward()) episode.set_reward(request.reward());
    for (const auto& [name, value] : request.signals()) (*episode.mutable_signals())[name] = value;
    for (const auto& [name, json] : request.facts()) (*episode.mutable_facts())[name] = json;
    rewards_.push_back(request);
    return absl::OkStatus();
  }
  absl::Status StoreEnd(const v1::StoreEndRequest& request) override {
    base::MutexLock lock(mu_);
    ++ends_waiting_;
    changed_.SignalAll();
    while (end_gate_) changed_.Wait(mu_);
    --ends_waiting_;
    if (!fail_end.ok()) return fail_end;
    v1::Episode& episode = episodes_[request.episode_id()];
    ++ends;
    if (episode.state() == v1::EPISODE_FENCED) return absl::FailedPreconditionError("the episode is fenced");
    episode.set_state(request.state());
    if (request.has_reward()) {
      episode.set_reward(request.reward());
      episode.clear_signals();
      episode.clear_facts();
      *episode.mutable_call_rewards() = request.call_rewards();
    }
    for (const auto& [name, value] : request.signals()) (*episode.mutable_signals())[name] = value;
    for (const auto& [name, json] : request.facts()) (*episode.mutable_facts())[name] = json;
    episode.set_detail(request.detail());
    episode.set_cause(request.cause());
    if (request.has_unless_rewarded() && !episode.has_reward() && episode.call_rewards().empty()) {
      episode.set_reward(request.unless_rewarded().reward());
      episode.set_detail(request.unless_rewarded().detail());
    }
    episode.set_ended_unix_ns(request.ended_unix_ns());
    return absl::OkStatus();
  }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) override {
    base::MutexLock lock(mu_);
    if (!fail_get_.ok() && request.episode_id() == fail_get_id_) return fail_get_;
    v1::EpisodeTree tree;
    const auto found = episodes_.find(request.episode_id());
    if (found == episodes_.end()) return absl::NotFoundError("no such episode");
    *tree.mutable_episode() = found->second;
    for (const v1::Call& call : calls_) {
      if (call.episode_id() != request.episode_id()) continue;
      *tree.add_calls() = call;
      for (const auto* keys : {&call.context_keys(), &call.sampled_keys()}) {
        for (const std::string& key : *keys) (*tree.mutable_segments())[base::Hex(key)] = segments_.at(key);
      }
    }
    return tree;
  }
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest&) override { return Unused(); }
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) override {
    base::MutexLock lock(mu_);
    if (!fail_list_.ok()) return fail_list_;
    v1::ListEpisodesResponse all;
    for (const auto& [id, episode] : episodes_) {
      if (request.only_open() && episode.state() != v1::EPISODE_OPEN) continue;
      if (episode.purpose() == request.purpose()) *all.add_episodes() = episode;
    }
    return all;
  }
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest&) override { return Unused(); }
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest&) override { return Unused(); }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest&) override { return Unused(); }
  absl::StatusOr<v1::PoolStatusResponse> Status() override { return Unused(); }

  std::vector<v1::Call> calls() const {
    base::MutexLock lock(mu_);
    return calls_;
  }
  int replaced() const {  // records of paused calls that a later one replaced
    base::MutexLock lock(mu_);
    return slices_;
  }
  std::vector<v1::StoreRewardRequest> rewards() const {  // that were stored
    base::MutexLock lock(mu_);
    return rewards_;
  }
  v1::Episode episode(const std::string& id) const {
    base::MutexLock lock(mu_);
    return episodes_.at(id);
  }
  v1::Segment segment(const std::string& key) const {
    base::MutexLock lock(mu_);
    return segments_.at(key);
  }
  size_t segments() const {
    base::MutexLock lock(mu_);
    return segments_.size();
  }
  // The ids of the whole prompt.
  std::vector<int32_t> PromptOf(const v1::Call& call) const {
    const std::vector<v1::Call> calls = this->calls();
    const std::vector<std::string> keys = tree::Contexts(calls).KeysOf(call).value();
    return Ids(google::protobuf::RepeatedPtrField<std::string>(keys.begin(), keys.end()));
  }
  std::vector<int32_t> Ids(const google::protobuf::RepeatedPtrField<std::string>& keys) const {
    std::vector<int32_t> ids;
    for (const std::string& key : keys) {
      const v1::Segment stored = segment(key);
      ids.insert(ids.end(), stored.token_ids().begin(), stored.token_ids().end());
    }
    return ids;
  }
  // AppendCall waits while the gate is closed.
  void CloseGate(bool closed) {
    base::MutexLock lock(mu_);
    append_gate_ = closed;
    changed_.SignalAll();
  }
  // Blocks until a call waits at the gate. REQUIRES: the gate is closed.
  void WaitForAppend() {
    base::MutexLock lock(mu_);
    while (appends_waiting_ == 0) changed_.Wait(mu_);
  }
  // RewardEpisode waits while the gate is closed.
  void CloseRewardGate(bool closed) {
    base::MutexLock lock(mu_);
    reward_gate_ = closed;
    changed_.SignalAll();
  }
  void WaitForReward() {
    base::MutexLock lock(mu_);
    while (rewards_waiting_ == 0) changed_.Wait(mu_);
  }
  // EndEpisode waits while the gate is closed.
  void CloseEndGate(bool closed) {
    base::MutexLock lock(mu_);
    end_gate_ = closed;
    changed_.SignalAll();
  }
  // Blocks until `count` ends wait at the gate. False = fewer after 5 s.
  bool WaitForEnds(int count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    base::MutexLock lock(mu_);
    while (ends_waiting_ < count && std::chrono::steady_clock::now() < deadline) {
      changed_.WaitFor(mu_, std::chrono::milliseconds(100));
    }
    return ends_waiting_ >= count;
  }
  void FailReward(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_reward_ = std::move(status);
  }
  void FailAppend(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_append = std::move(status);
  }
  // Stores the next `count` calls, but loses their answers.
  void LoseAnswers(int count) {
    base::MutexLock lock(mu_);
    lost_answers_ = count;
  }
  void FailEnd(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_end = std::move(status);
  }
  // As a newer attempt of its sample does.
  void Fence(const std::string& id) {
    base::MutexLock lock(mu_);
    episodes_.at(id).set_state(v1::EPISODE_FENCED);
  }
  void FailGet(const std::string& id, absl::Status status) {
    base::MutexLock lock(mu_);
    fail_get_id_ = id;
    fail_get_ = std::move(status);
  }
  void FailList(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_list_ = std::move(status);
  }
  void Damage(const std::function<void(v1::Call&)>& damage) {
    base::MutexLock lock(mu_);
    for (v1::Call& call : calls_) damage(call);
  }
  void FailOpen(absl::Status status) {
    base::MutexLock lock(mu_);
    fail_open = std::move(status);
  }

  std::function<void(const v1::Episode&)> before_open;  // set before the first episode; null = nothing
  std::atomic<int> ends{0};

 private:
  static bool Continues(const v1::Call& later, const v1::Call& earlier) {
    return earlier.finish() == v1::FINISH_PAUSED && later.call_id() == earlier.call_id() &&
           later.sampled_keys_size() >= earlier.sampled_keys_size() &&
           std::equal(earlier.sampled_keys().begin(), earlier.sampled_keys().end(), later.sampled_keys().begin());
  }
  static absl::Status Unused() { return absl::UnimplementedError("the gateway does not call this"); }

  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool append_gate_ ABSL_GUARDED_BY(mu_) = false;
  int appends_waiting_ ABSL_GUARDED_BY(mu_) = 0;
  int lost_answers_ ABSL_GUARDED_BY(mu_) = 0;
  int slices_ ABSL_GUARDED_BY(mu_) = 0;
  bool reward_gate_ ABSL_GUARDED_BY(mu_) = false;
  int rewards_waiting_ ABSL_GUARDED_BY(mu_) = 0;
  bool end_gate_ ABSL_GUARDED_BY(mu_) = false;
  int ends_waiting_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status fail_list_ ABSL_GUARDED_BY(mu_), fail_reward_ ABSL_GUARDED_BY(mu_);
  std::string fail_get_id_ ABSL_GUARDED_BY(mu_);
  absl::Status fail_get_ ABSL_GUARDED_BY(mu_);
  absl::Status fail_open ABSL_GUARDED_BY(mu_), fail_append ABSL_GUARDED_BY(mu_), fail_end ABSL_GUARDED_BY(mu_);
  std::map<std::string, v1::Episode> episodes_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, v1::Segment> segments_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::Call> calls_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::StoreRewardRequest> rewards_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::gateway
