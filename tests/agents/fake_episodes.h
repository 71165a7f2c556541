// A gateway in memory. It hands out a number of tasks, then answers FAILED_PRECONDITION, and records every request.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agents/episodes.h"
#include "base/mutex.h"

namespace ingot::agents {

class FakeEpisodes final : public Episodes {
 public:
  explicit FakeEpisodes(int tasks, std::string payload = R"({"text":"hello","answer":"42"})")
      : tasks_(tasks), payload_(std::move(payload)) {}

  // Set before the runner starts, called without the lock. An error becomes the answer.
  std::function<absl::Status()> before_open;
  std::function<absl::Status(const v1::EpisodeRewardRequest&)> before_reward;
  std::function<absl::Status(const v1::EpisodeEndRequest&)> before_end;
  std::function<void(const v1::SnapshotFilesPart&)> before_files;
  std::string last_rejection;                                                           // of every episode's end
  std::function<void(const v1::EpisodeOpenRequest&, v1::EpisodeOpenResponse&)> change;  // of an opening; may be null
  std::vector<std::string> domains = {""};                                              // of the tasks, in turn

  absl::StatusOr<v1::EpisodeOpenResponse> Open(const v1::EpisodeOpenRequest& request) override {
    {
      base::MutexLock lock(mu_);
      keys_.push_back(request.idempotency_key());
    }
    if (before_open) INGOT_RETURN_IF_ERROR(before_open());
    base::MutexLock lock(mu_);
    if (opened_ == tasks_) return absl::FailedPreconditionError("no more tasks");
    const std::string domain = domains[static_cast<size_t>(opened_) % domains.size()];
    const std::string id = absl::StrCat("ep", opened_++);
    ++open_;
    most_open_ = std::max(most_open_, open_);
    std::string scaffold = request.scaffold();
    bool separate_owner = request.separate_owner();
    for (const v1::DomainScaffold& named : request.by_domain()) {
      if (named.domain() != domain) continue;
      scaffold = named.scaffold();
      separate_owner = named.separate_owner();
    }
    ++scaffolds_[scaffold];
    scaffold_of_[id] = scaffold;
    metadata_.push_back(request.metadata_json());
    changed_.SignalAll();
    v1::EpisodeOpenResponse response;
    response.set_episode_id(id);
    response.set_api_key("key-" + id);
    if (separate_owner) response.set_owner_key("owner-" + id);
    owners_[id] = separate_owner ? response.owner_key() : response.api_key();
    response.set_base_url("http://127.0.0.1:1/s/" + id + "/v1");
    response.mutable_task()->set_task_id("task-" + id);
    response.mutable_task()->set_payload_json(payload_);
    response.mutable_task()->set_domain(domain);
    if (change) change(request, response);
    return response;
  }

  absl::Status Reward(const v1::EpisodeRewardRequest& request) override {
    if (before_reward) INGOT_RETURN_IF_ERROR(before_reward(request));
    base::MutexLock lock(mu_);
    if (request.api_key() != owners_.at(request.episode_id())) return absl::PermissionDeniedError("wrong key");
    rewards_[request.episode_id()] = request;
    return absl::OkStatus();
  }

  std::vector<std::string> messages;  // returned for every episode
  absl::StatusOr<v1::ReadMessagesResponse> ReadMessages(const v1::ReadMessagesRequest& request) override {
    base::MutexLock lock(mu_);
    if (owners_[request.episode_id()] != request.api_key()) return absl::PermissionDeniedError("the wrong key");
    v1::ReadMessagesResponse response;
    response.mutable_messages_json()->Add(messages.begin(), messages.end());
    return response;
  }
  absl::StatusOr<v1::EpisodeEndResponse> End(const v1::EpisodeEndRequest& request) override {
    if (before_end) INGOT_RETURN_IF_ERROR(before_end(request));
    base::MutexLock lock(mu_);
    if (request.api_key() != owners_.at(request.episode_id())) return absl::PermissionDeniedError("wrong key");
    if (request.has_unless_rewarded() && !rewards_.contains(request.episode_id())) {  // as the pool decides
      v1::EpisodeRewardRequest& reward = rewards_[request.episode_id()];
      reward.set_reward(request.unless_rewarded().reward());
      *reward.mutable_signals() = request.unless_rewarded().signals();
      *reward.mutable_facts() = request.unless_rewarded().facts();
    }
    --open_;
    ends_.push_back(request);
    changed_.SignalAll();
    v1::EpisodeEndResponse response;
    response.set_last_rejection(last_rejection);
    return response;
  }

  absl::StatusOr<v1::NextSnapshotResponse> NextSnapshot(const v1::NextSnapshotRequest&) override {
    base::MutexLock lock(mu_);
    if (asks_.empty()) changed_.WaitFor(mu_, std::chrono::milliseconds(20));
    v1::NextSnapshotResponse ask;
    if (asks_.empty()) return ask;
    ask = asks_.front();
    asks_.erase(asks_.begin());
    return ask;
  }
  absl::Status SnapshotTaken(const v1::SnapshotTakenRequest& request) override {
    base::MutexLock lock(mu_);
    taken_.push_back(request);
    changed_.SignalAll();
    return absl::OkStatus();
  }

  absl::Status SendSnapshotFiles(const v1::SnapshotFilesPart& part) override {
    if (before_files) before_files(part);
    base::MutexLock lock(mu_);
    std::string& file = files_[part.transfer_id()];
    if (part.offset() != static_cast<int64_t>(file.size())) return absl::InvalidArgumentError("out of order");
    file += part.data();
    if (part.done() || !part.error().empty()) {
      sent_[part.transfer_id()] = part.error();
      changed_.SignalAll();
    }
    return absl::OkStatus();
  }

  // Asks the runner for a snapshot, or with `transfer` for its files.
  void Ask(const std::string& episode, const std::string& snapshot, bool ends, const std::string& transfer = "") {
    base::MutexLock lock(mu_);
    v1::NextSnapshotResponse& ask = asks_.emplace_back();
    ask.set_episode_id(episode);
    ask.set_snapshot_id(snapshot);
    ask.set_ends(ends);
    ask.set_transfer_id(transfer);
    changed_.SignalAll();
  }
  // The runner's answers; blocks until there are `count`, at most 20 s.
  std::vector<v1::SnapshotTakenRequest> AwaitTaken(size_t count) {
    base::MutexLock lock(mu_);
    for (int i = 0; i < 200 && taken_.size() < count; ++i) changed_.WaitFor(mu_, std::chrono::milliseconds(100));
    return taken_;
  }

  // The files that the runner sent and its error; blocks until they are whole, at most 20 s.
  std::pair<std::string, std::string> AwaitFiles(const std::string& transfer) {
    base::MutexLock lock(mu_);
    for (int i = 0; i < 200 && !sent_.contains(transfer); ++i) changed_.WaitFor(mu_, std::chrono::milliseconds(100));
    if (!sent_.contains(transfer)) return {"", "nothing was sent"};
    return {files_[transfer], sent_[transfer]};
  }

  // Blocks until `count` episodes were opened; false after 20 s.
  bool AwaitOpened(int count) {
    base::MutexLock lock(mu_);
    for (int i = 0; i < 200 && opened_ < count; ++i) changed_.WaitFor(mu_, std::chrono::milliseconds(100));
    return opened_ >= count;
  }

  int most_open() const { return Locked(most_open_); }
  int opened() const { return Locked(opened_); }
  // The idempotency keys of every Open, in order.
  std::vector<std::string> keys() const { return Locked(keys_); }
  // By episode: the key that may reward and end it.
  std::map<std::string, std::string> owners() const { return Locked(owners_); }
  std::map<std::string, int> scaffolds() const { return Locked(scaffolds_); }
  std::map<std::string, std::string> scaffold_of() const { return Locked(scaffold_of_); }  // by episode
  std::vector<std::string> metadata() const { return Locked(metadata_); }
  std::map<std::string, v1::EpisodeRewardRequest> rewards() const { return Locked(rewards_); }
  std::vector<v1::EpisodeEndRequest> ends() const { return Locked(ends_); }

 private:
  template <typename T>
  T Locked(const T& field) const {
    base::MutexLock lock(mu_);
    return field;
  }

  const int tasks_;
  const std::string payload_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  int opened_ = 0;
  int open_ = 0;
  int most_open_ = 0;
  std::map<std::string, std::string> owners_;
  std::vector<std::string> keys_;
  std::map<std::string, int> scaffolds_;
  std::map<std::string, std::string> scaffold_of_;
  std::vector<std::string> metadata_;
  std::map<std::string, v1::EpisodeRewardRequest> rewards_;
  std::vector<v1::EpisodeEndRequest> ends_;
  std::vector<v1::NextSnapshotResponse> asks_;
  std::vector<v1::SnapshotTakenRequest> taken_;
  std::map<std::string, std::string> files_, sent_;  // by transfer: the archive, and the error at its end
};

}  // namespace ingot::agents
