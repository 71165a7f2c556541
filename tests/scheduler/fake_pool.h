// A data pool in memory with the faults of a real one. Thread safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "datapool/client.h"
#include "datapool/keys.h"
#include "proto/scheduler.pb.h"

namespace ingot::scheduler {

// The content that survives a crash.
struct PoolState {
  std::vector<v1::JournalRecord> journal;
  std::map<std::tuple<int, int64_t, int32_t, int32_t>, v1::Episode> episodes;  // (purpose, group, sample, attempt)
};

class FakePool final : public datapool::Client {
 public:
  FakePool() = default;
  explicit FakePool(PoolState state) : state_(std::move(state)) {
    for (v1::JournalRecord record : state_.journal) {
      v1::AppendJournalRequest request;
      const int64_t index = record.index();
      record.clear_index();
      record.clear_unix_ns();
      *request.add_records() = std::move(record);
      appends_.emplace(ContentOf(request), index);
    }
  }

  // Called after every change, without the lock.
  std::function<void()> on_change;

  // kLate: the append has no answer and is not written before WriteLate.
  enum class Fault { kNone, kLost, kWrittenButAnswerLost, kLate, kRejected };
  // The next append has this fault.
  void FailNextAppend(Fault fault) {
    base::MutexLock lock(mu_);
    fault_ = fault;
  }
  // While set, every append fails and is not written.
  void FailAppends(bool fail) {
    base::MutexLock lock(mu_);
    fail_appends_ = fail;
  }
  // Writes the late append.
  absl::StatusOr<int64_t> WriteLate() {
    base::MutexLock lock(mu_);
    return Write(late_);
  }
  // The count of records says that so many more were written.
  void LoseRecords(int64_t count) {
    base::MutexLock lock(mu_);
    lost_records_ = count;
  }
  // At most so many entries per answer, whatever limit the request has.
  void set_page(int32_t page) { page_ = page; }

  PoolState state() const {
    base::MutexLock lock(mu_);
    return state_;
  }

  static std::string IdOf(const v1::Ticket& ticket) {
    return absl::StrCat(ticket.purpose(), "/", ticket.ref().ShortDebugString());
  }

  // Fences older attempts of the sample, as a real pool does.
  void Open(const v1::Ticket& ticket) {
    {
      base::MutexLock lock(mu_);
      for (auto& [key, older] : state_.episodes) {
        const bool same_sample = older.purpose() == ticket.purpose() &&
                                 older.ref().group_id() == ticket.ref().group_id() &&
                                 older.ref().sample_index() == ticket.ref().sample_index();
        if (same_sample && older.state() == v1::EPISODE_OPEN) older.set_state(v1::EPISODE_FENCED);
      }
      v1::Episode& episode = state_.episodes[Key(ticket.purpose(), ticket.ref())];
      episode.set_episode_id(IdOf(ticket));
      *episode.mutable_ref() = ticket.ref();
      episode.set_purpose(ticket.purpose());
      *episode.mutable_task() = ticket.task();
      episode.set_pinned_version(ticket.pinned_version());
      episode.set_admitted_version(ticket.admitted_version());
      episode.set_state(v1::EPISODE_OPEN);
      if (!ticket.trunk_id().empty()) episode.mutable_fork()->set_episode_id(ticket.trunk_id());
    }
    Changed();
  }
  void End(const v1::ReportEpisodeEndRequest& request) {
    {
      base::MutexLock lock(mu_);
      v1::Episode& episode = state_.episodes[Key(request.purpose(), request.ref())];
      episode.set_state(request.state());
      episode.set_reward(request.reward());
      episode.set_runner(request.runner());
      episode.set_scaffold(request.scaffold());
      episode.set_cause(request.cause());
    }
    Changed();
  }

  // A reward of the episode that was posted before its end.
  void Reward(const v1::Ticket& ticket, double reward) {
    base::MutexLock lock(mu_);
    state_.episodes[Key(ticket.purpose(), ticket.ref())].set_reward(reward);
  }
  void RewardCall(const v1::Ticket& ticket, const std::string& call_id, double reward) {
    base::MutexLock lock(mu_);
    (*state_.episodes[Key(ticket.purpose(), ticket.ref())].mutable_call_rewards())[call_id] = reward;
  }

  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest& request) override {
    absl::StatusOr<int64_t> first;
    Fault fault = Fault::kNone;
    bool changed = false;
    {
      base::MutexLock lock(mu_);
      fault = std::exchange(fault_, Fault::kNone);
      if (fault == Fault::kRejected) return absl::InvalidArgumentError("too large");
      if (fault == Fault::kLost || fail_appends_) return absl::UnavailableError("no space left");
      if (fault == Fault::kLate) {
        late_ = request;
        return absl::DeadlineExceededError("no answer");
      }
      const auto before = state_.journal.size();
      first = Write(request);
      changed = state_.journal.size() > before;
    }
    if (changed) Changed();
    if (fault == Fault::kWrittenButAnswerLost) return absl::DeadlineExceededError("no answer");
    return first;
  }

  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& request) override {
    base::MutexLock lock(mu_);
    v1::ReadJournalResponse response;
    const int32_t limit = std::min(page_, request.limit() == 0 ? 10'000 : request.limit());
    for (int64_t i = request.from_index(); i < std::ssize(state_.journal) && response.records_size() < limit; ++i) {
      *response.add_records() = state_.journal[i];
    }
    response.set_end_index(std::ssize(state_.journal) + lost_records_);
    return response;
  }

  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) override {
    base::MutexLock lock(mu_);
    v1::ListEpisodesResponse response;
    for (const auto& [key, episode] : state_.episodes) {
      const auto& [purpose, group, sample, attempt] = key;
      if (purpose != request.purpose() || group < request.first_group()) continue;
      if (request.last_group() >= 0 && group > request.last_group()) continue;
      if (datapool::OrderKey(episode) <= request.after()) continue;
      if (response.episodes_size() == page_) {
        response.set_more(true);
        response.set_next(datapool::OrderKey(*response.episodes().rbegin()));
        break;
      }
      *response.add_episodes() = episode;
    }
    return response;
  }

  absl::Status StoreEpisode(const v1::StoreEpisodeRequest&) override { return absl::UnimplementedError(""); }
  absl::Status AppendCall(const v1::AppendCallRequest&) override { return absl::UnimplementedError(""); }
  absl::Status StoreReward(const v1::StoreRewardRequest&) override { return absl::UnimplementedError(""); }
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest&) override {
    return absl::UnimplementedError("");
  }
  absl::Status StoreGrades(const v1::StoreGradesRequest&) override {
    return absl::UnimplementedError("no test of the scheduler grades in its pool");
  }
  absl::Status StoreEnd(const v1::StoreEndRequest& request) override {
    {
      base::MutexLock lock(mu_);
      v1::Episode* const episode = Find(request.episode_id());
      if (episode == nullptr) return absl::NotFoundError(request.episode_id());
      if (episode->state() != v1::EPISODE_OPEN) return absl::FailedPreconditionError("it has ended");
      episode->set_state(request.state());
      if (request.has_reward()) episode->set_reward(request.reward());
    }
    Changed();
    return absl::OkStatus();
  }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) override {
    base::MutexLock lock(mu_);
    const v1::Episode* const episode = Find(request.episode_id());
    if (episode == nullptr) return absl::NotFoundError(request.episode_id());
    v1::EpisodeTree tree;
    *tree.mutable_episode() = *episode;
    return tree;
  }
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest&) override { return absl::UnimplementedError(""); }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest& request) override {
    base::MutexLock lock(mu_);
    v1::TrimResponse response;
    for (const int64_t group : request.group_ids()) {
      response.set_episodes_deleted(
          response.episodes_deleted() + std::erase_if(state_.episodes, [&](const auto& entry) {
            return std::get<0>(entry.first) == v1::PURPOSE_TRAIN && std::get<1>(entry.first) == group;
          }));
    }
    return response;
  }
  absl::StatusOr<v1::PoolStatusResponse> Status() override { return absl::UnimplementedError(""); }

 private:
  v1::Episode* Find(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (auto& [key, episode] : state_.episodes) {
      if (episode.episode_id() == id) return &episode;
    }
    return nullptr;
  }
  static std::tuple<int, int64_t, int32_t, int32_t> Key(v1::EpisodePurpose purpose, const v1::EpisodeRef& ref) {
    return {purpose, ref.group_id(), ref.sample_index(), ref.attempt()};
  }
  static std::string ContentOf(v1::AppendJournalRequest request) {
    request.clear_expected_index();
    return request.SerializeAsString();
  }
  absl::StatusOr<int64_t> Write(const v1::AppendJournalRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const int64_t first = std::ssize(state_.journal);
    // An append that is equal to an earlier one is its repetition.
    if (const auto earlier = appends_.find(ContentOf(request)); earlier != appends_.end()) return earlier->second;
    if (request.has_expected_index() && request.expected_index() != first) return absl::AbortedError("another place");
    appends_.emplace(ContentOf(request), first);
    for (const v1::JournalRecord& record : request.records()) {
      state_.journal.push_back(record);
      state_.journal.back().set_index(std::ssize(state_.journal) - 1);
      state_.journal.back().set_unix_ns(std::ssize(state_.journal));
    }
    return first;
  }
  void Changed() {
    if (on_change) on_change();
  }

  mutable base::Mutex mu_;
  PoolState state_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t> appends_ ABSL_GUARDED_BY(mu_);  // content -> index
  Fault fault_ ABSL_GUARDED_BY(mu_) = Fault::kNone;
  v1::AppendJournalRequest late_ ABSL_GUARDED_BY(mu_);
  bool fail_appends_ ABSL_GUARDED_BY(mu_) = false;
  int64_t lost_records_ ABSL_GUARDED_BY(mu_) = 0;
  int32_t page_ = 10'000;
};

}  // namespace ingot::scheduler
