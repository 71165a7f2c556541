#include "datapool/sharded_pool.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "datapool/stores.h"

namespace ingot::datapool {
namespace {

using testing::Append;
using testing::End;
using testing::Get;
using testing::GetGroup;
using ::testing::HasSubstr;
using testing::Open;
using testing::Prompt;
using testing::Sampled;

class ShardedPoolContract : public testing::StoreContract {};

INSTANTIATE_TEST_SUITE_P(Over, ShardedPoolContract, testing::kStores, testing::kStoreName);

TEST_P(ShardedPoolContract, SpreadsGroupsAndKeepsEachWhole) {
  StoreOptions options = Options(3);
  auto pool = OpenPool(options).value();
  for (int64_t group = 0; group < 30; ++group) {
    for (int sample = 0; sample < 2; ++sample) {
      const std::string id = std::to_string(group) + "-" + std::to_string(sample);
      ASSERT_TRUE(pool->StoreEpisode(Open(id, group, sample)).ok());
      ASSERT_TRUE(pool->AppendCall(Append(id, 0, {Prompt({1})}, {Sampled({2})})).ok());
    }
  }
  EXPECT_EQ(pool->StoreEpisode(Open("3-0", 7, 5)).code(), absl::StatusCode::kAlreadyExists);  // on any shard
  pool.reset();
  options.shards = 2;
  EXPECT_THAT(std::string(OpenPool(options).status().message()), HasSubstr("number of shards"));
  options.shards = 3;
  pool = OpenPool(options).value();  // no shard is remembered
  ASSERT_TRUE(pool->AppendCall(Append("3-0", 1, {Prompt({1})}, {})).ok());
  ASSERT_TRUE(pool->StoreReward(testing::Reward("3-0", 0.5, {{"3-0/1", 1}})).ok());
  EXPECT_EQ(Get(*pool, "3-0")->episode().call_rewards().at("3-0/1"), 1);
  EXPECT_EQ(pool->StoreReward(testing::Reward("nobody", 1)).code(), absl::StatusCode::kNotFound);
  const std::string no_id = '\0' + std::string("3-0");
  EXPECT_EQ(Get(*pool, no_id).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pool->StoreReward(testing::Reward(no_id, 1)).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(pool->StoreEnd(End("3-0")).ok());
  EXPECT_EQ(pool->StoreEnd(End("nobody")).code(), absl::StatusCode::kNotFound);
  for (int64_t group = 0; group < 30; ++group) EXPECT_EQ(GetGroup(*pool, group)->episodes_size(), 2);
  pool.reset();
  for (int i = 0; i < 3; ++i) {
    StoreOptions one = options;
    one.path += "/shard-" + std::to_string(i);
    if (OnPostgres()) one.postgres.run_id = base::ReadFile(dir_.path() + "/run_id").value();
    EXPECT_GT(Store::Open(one, i).value()->Status()->episodes(), 6) << "shard " << i;
  }
}

TEST(ShardedPool, RemembersABoundedNumberOfEpisodes) {
  testing::TempDir dir;
  std::vector<std::unique_ptr<Client>> shards;
  for (int i = 0; i < 2; ++i) {
    StoreOptions options = testing::QuickOptions(dir.path() + "/" + std::to_string(i));
    options.shards = 2;
    shards.push_back(Store::Open(options, i).value());
  }
  ShardedPool pool(std::move(shards), 2);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool.StoreEpisode(Open(std::to_string(i), i, 0)).ok());
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(pool.AppendCall(Append(std::to_string(i), 0, {Prompt({1})}, {})).ok());
    EXPECT_EQ(Get(pool, std::to_string(i))->calls_size(), 1);
  }
}

// A shard that can only list episodes, and counts the listed bytes.
class ListedShard final : public Client {
 public:
  explicit ListedShard(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  absl::StatusOr<v1::ListEpisodesResponse> ListEpisodes(const v1::ListEpisodesRequest& request) override {
    asked = request.max_bytes();
    auto page = store_->ListEpisodes(request);
    if (page.ok()) given += static_cast<int64_t>(page->ByteSizeLong());
    return page;
  }
  absl::Status StoreEpisode(const v1::StoreEpisodeRequest&) override { return kNot; }
  absl::Status AppendCall(const v1::AppendCallRequest&) override { return kNot; }
  absl::Status StoreReward(const v1::StoreRewardRequest&) override { return kNot; }
  absl::Status StoreEnd(const v1::StoreEndRequest&) override { return kNot; }
  absl::StatusOr<v1::EpisodeTree> TakeOverEpisode(const v1::TakeOverEpisodeRequest&) override { return kNot; }
  absl::Status StoreGrades(const v1::StoreGradesRequest&) override { return kNot; }
  absl::StatusOr<v1::EpisodeTree> GetEpisode(const v1::GetEpisodeRequest&) override { return kNot; }
  absl::StatusOr<v1::Group> GetGroup(const v1::GetGroupRequest&) override { return kNot; }
  absl::StatusOr<int64_t> AppendJournal(const v1::AppendJournalRequest&) override { return kNot; }
  absl::StatusOr<v1::ReadJournalResponse> ReadJournal(const v1::ReadJournalRequest&) override { return kNot; }
  absl::StatusOr<v1::TrimResponse> Trim(const v1::TrimRequest&) override { return kNot; }
  absl::StatusOr<v1::PoolStatusResponse> Status() override { return kNot; }

  int64_t asked = -1, given = 0;

 private:
  const absl::Status kNot = absl::UnimplementedError("listed only");
  const std::unique_ptr<Store> store_;
};

TEST(ShardedPool, MergedListingHoldsAboutOnePage) {
  constexpr int kShards = 4, kEpisodes = 120;
  constexpr int64_t kTask = 4000, kPage = 64000, kSlack = 1000;
  testing::TempDir dir;
  std::vector<std::unique_ptr<Client>> shards;
  std::vector<ListedShard*> listed;
  for (int i = 0; i < kShards; ++i) {
    StoreOptions options = testing::QuickOptions(dir.path() + "/" + std::to_string(i));
    options.shards = kShards;
    auto store = Store::Open(options, i).value();
    for (int e = i; e < kEpisodes; e += i == 0 ? 1 : kShards) {  // the first shard has groups between all others
      const std::string id = std::to_string(i) + "-" + std::to_string(e);
      auto open = Open(id, e * kShards + i, 0);
      open.mutable_episode()->mutable_task()->set_payload_json(std::string(kTask, 'x'));
      ASSERT_TRUE(store->StoreEpisode(open).ok());
      if (e % 3 != 0) {
        ASSERT_TRUE(store->StoreEnd(End(id)).ok());
      }
    }
    listed.push_back(new ListedShard(std::move(store)));
    shards.emplace_back(listed.back());
  }
  ShardedPool pool(std::move(shards));
  v1::ListEpisodesRequest request;
  request.set_last_group(-1);
  ASSERT_TRUE(pool.ListEpisodes(request).ok());
  for (const ListedShard* shard : listed) EXPECT_EQ(shard->asked, (32 << 20) / kShards);
  request.set_max_bytes(kPage);
  for (const bool only_open : {false, true}) {
    request.set_only_open(only_open);
    request.clear_after();
    std::vector<int64_t> groups;
    for (bool more = true; more;) {
      for (ListedShard* shard : listed) shard->given = 0;
      const auto page = pool.ListEpisodes(request);
      ASSERT_TRUE(page.ok()) << page.status();
      EXPECT_LE(page->ByteSizeLong(), kPage + kTask + kSlack);
      int64_t given = 0;
      for (const ListedShard* shard : listed) {
        EXPECT_LE(shard->asked, kPage / kShards);
        given += shard->given;
      }
      EXPECT_LE(given, 2 * kPage + 2 * kShards * (kTask + kSlack)) << "what is answered, and a page of what is not";
      for (const auto& episode : page->episodes()) groups.push_back(episode.ref().group_id());
      more = page->more();
      request.set_after(page->next());
    }
    EXPECT_TRUE(std::is_sorted(groups.begin(), groups.end()));
    EXPECT_EQ(std::set(groups.begin(), groups.end()).size(), groups.size());
    EXPECT_EQ(groups.size(), only_open ? 40 + 30 : 120 + 90);
  }
}

}  // namespace
}  // namespace ingot::datapool
