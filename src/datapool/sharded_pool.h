// A pool with several shards. Each shard is a Client, either in this process or over a channel. Shard 0 stores the
// journal. All episodes in a group are on one shard, where its attempts fence each other and share segments. A serving
// episode's id determines its shard. Call ids are unique per shard. Thread safe. As durable as its shards.
//
// Most requests name only an episode, so the pool remembers the shards of open episodes. If it does not remember an
// episode, for example after a restart, it queries all shards.
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
  // `max_remembered` limits the number of episodes whose shard is remembered. REQUIRES: at least one shard; a pool's
  // shards are always in the same order.
  explicit ShardedPool(std::vector<std::unique_ptr<Client>> shards, size_t max_remembered = 100000);

  absl::Status StoreEpisode(const v1::StoreEpisodeRequest& request) override;
  absl::Status AppendCall(const v1::AppendCallRequest& request) override;
  absl::Status StoreReward(const v1::StoreRewardRequest& request) override;
  absl::Status StoreEnd(const v1::StoreEndRequest& request) override;
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest& request) override;
  absl::Status StoreGrades(const v1::StoreGradesRequest& request) override;
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
  // Returns the shard that contains the episode, or NOT_FOUND if none does.
  absl::StatusOr<Client*> Find(const std::string& episode_id);
  void Remember(const std::string& episode_id, Client* shard);
  void Forget(const std::string& episode_id);

  const std::vector<std::unique_ptr<Client>> shards_;
  const size_t max_remembered_;
  base::Mutex mu_;
  std::unordered_map<std::string, Client*> remembered_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::datapool
