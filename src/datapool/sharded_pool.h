// One pool over several shards, each a Client: in this process, or behind a channel. A group lives whole on one shard
// (attempts fence each other there and share their prompts), an episode that serves on one chosen by its id; the
// journal is shard 0's. Thread safe; as durable as its shards.
//
// A call carries its episode's id alone, so the shards of open episodes are remembered; a forgotten one (after a
// restart) is looked up on all shards. Call ids are unique per shard.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "datapool/client.h"

namespace ingot::datapool {

class ShardedPool final : public Client {
 public:
  // REQUIRES: at least one shard; the same ones in the same order every time.
  explicit ShardedPool(std::vector<std::unique_ptr<Client>> shards, size_t max_remembered = 100000);

  absl::Status OpenEpisode(const v1::OpenEpisodeRequest& request) override;
  absl::Status AppendCall(const v1::AppendCallRequest& request) override;
  absl::Status RewardEpisode(const v1::RewardEpisodeRequest& request) override;
  absl::Status EndEpisode(const v1::EndEpisodeRequest& request) override;
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest& request) override;
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest& request) override;
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) override;
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest& request) override;
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest& request) override;
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest& request) override;
  absl::StatusOr<v1::PoolStatusResponse> Status() override;

 private:
  Client& ShardOfGroup(v1::EpisodePurpose purpose, int64_t group_id);
  Client& ShardFor(const v1::Episode& episode);
  // The shard that holds the episode; NOT_FOUND if none does.
  absl::StatusOr<Client*> Find(const std::string& episode_id);
  void Remember(const std::string& episode_id, Client* shard);
  void Forget(const std::string& episode_id);

  const std::vector<std::unique_ptr<Client>> shards_;
  const size_t max_remembered_;
  base::Mutex mu_;
  std::unordered_map<std::string, Client*> remembered_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::datapool
