#include "app/learning/opted_in_pool.h"

#include <string>

#include "gateway/user_feedback.h"

namespace ingot::app {
namespace {

class OptedInPool final : public datapool::Client {
 public:
  OptedInPool(datapool::Client& pool, RatedAnswers& answers) : pool_(pool), answers_(answers) {}

  absl::Status StoreEpisode(const v1::StoreEpisodeRequest& request) override {
    const std::string user = gateway::UserInMetadata(request.episode().metadata_json());
    if (user.empty()) return absl::OkStatus();
    INGOT_RETURN_IF_ERROR(pool_.StoreEpisode(request));
    answers_.OnConversation(request.episode().episode_id(), user);
    return absl::OkStatus();
  }
  absl::Status AppendCall(const v1::AppendCallRequest& request) override {
    if (!answers_.Records(request.call().episode_id())) return absl::OkStatus();
    INGOT_RETURN_IF_ERROR(pool_.AppendCall(request));
    answers_.OnCall(request.call());
    return absl::OkStatus();
  }
  absl::Status StoreReward(const v1::StoreRewardRequest& request) override { return pool_.StoreReward(request); }
  absl::Status StoreEnd(const v1::StoreEndRequest&) override { return absl::OkStatus(); }
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest& request) override {
    return pool_.TakeOverEpisode(request);
  }
  absl::Status StoreGrades(const v1::StoreGradesRequest& request) override { return pool_.StoreGrades(request); }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) override {
    return pool_.GetEpisode(request);
  }
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest& request) override { return pool_.GetGroup(request); }
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) override {
    return pool_.ListEpisodes(request);
  }
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest& request) override {
    return pool_.AppendJournal(request);
  }
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& request) override {
    return pool_.ReadJournal(request);
  }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest& request) override { return pool_.Trim(request); }
  absl::StatusOr<v1::PoolStatusResponse> Status() override { return pool_.Status(); }

 private:
  datapool::Client& pool_;
  RatedAnswers& answers_;
};

}  // namespace

std::unique_ptr<datapool::Client> MakeOptedInPool(datapool::Client& pool, RatedAnswers& answers) {
  return std::make_unique<OptedInPool>(pool, answers);
}

}  // namespace ingot::app
