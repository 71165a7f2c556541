#include "datapool/sharded_pool.h"

#include <gmock/gmock.h>

#include "datapool/make_pool.h"

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

TEST(ShardedPool, SpreadsGroupsAndKeepsEachWhole) {
  testing::TempDir dir;
  StoreOptions options = testing::QuickOptions(dir.path());
  options.shards = 3;
  auto pool = OpenPool(options).value();
  for (int64_t group = 0; group < 30; ++group) {
    for (int sample = 0; sample < 2; ++sample) {
      const std::string id = std::to_string(group) + "-" + std::to_string(sample);
      ASSERT_TRUE(pool->OpenEpisode(Open(id, group, sample)).ok());
      ASSERT_TRUE(pool->AppendCall(Append(id, 0, {Prompt({1})}, {Sampled({2})})).ok());
    }
  }
  EXPECT_EQ(pool->OpenEpisode(Open("3-0", 7, 5)).code(), absl::StatusCode::kAlreadyExists);  // on whatever shard
  pool.reset();
  options.shards = 2;
  EXPECT_THAT(std::string(OpenPool(options).status().message()), HasSubstr("number of shards"));
  options.shards = 3;
  pool = OpenPool(options).value();  // nothing is remembered now
  ASSERT_TRUE(pool->AppendCall(Append("3-0", 1, {Prompt({1})}, {})).ok());
  ASSERT_TRUE(pool->RewardEpisode(testing::Reward("3-0", 0.5, {{"3-0/1", 1}})).ok());
  EXPECT_EQ(Get(*pool, "3-0")->episode().call_rewards().at("3-0/1"), 1);
  EXPECT_EQ(pool->RewardEpisode(testing::Reward("nobody", 1)).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(pool->EndEpisode(End("3-0")).ok());
  EXPECT_EQ(pool->EndEpisode(End("nobody")).code(), absl::StatusCode::kNotFound);
  for (int64_t group = 0; group < 30; ++group) EXPECT_EQ(GetGroup(*pool, group)->episodes_size(), 2);
  pool.reset();
  for (int i = 0; i < 3; ++i) {
    StoreOptions one = options;
    one.path += "/shard-" + std::to_string(i);
    EXPECT_GT(Store::Open(one, i).value()->Status()->episodes(), 6) << "shard " << i;
  }
}

TEST(ShardedPool, ForgetsRatherThanGrows) {
  testing::TempDir dir;
  std::vector<std::unique_ptr<Client>> shards;
  for (int i = 0; i < 2; ++i) {
    StoreOptions options = testing::QuickOptions(dir.path() + "/" + std::to_string(i));
    options.shards = 2;
    shards.push_back(Store::Open(options, i).value());
  }
  ShardedPool pool(std::move(shards), 2);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool.OpenEpisode(Open(std::to_string(i), i, 0)).ok());
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(pool.AppendCall(Append(std::to_string(i), 0, {Prompt({1})}, {})).ok());
    EXPECT_EQ(Get(pool, std::to_string(i))->calls_size(), 1);
  }
}

}  // namespace
}  // namespace ingot::datapool
