// The outcome of an episode that ends without a reward: it never takes the place of one that was posted.
#include <gtest/gtest.h>

#include "datapool/make_pool.h"
#include "datapool/store.h"
#include "datapool/stores.h"

namespace ingot::datapool {
namespace {

using testing::Append;
using testing::End;
using testing::Get;
using testing::Open;
using testing::Prompt;
using testing::Reward;
using testing::Sampled;

class DefaultOutcomeTest : public testing::StoreContract {
 protected:
  void SetUp() override {
    StoreContract::SetUp();
    if (IsSkipped()) return;
    auto store = Store::Open(Options());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    for (const int sample : {0, 1, 2}) ASSERT_TRUE(store_->StoreEpisode(Open(Id(sample), 0, sample)).ok());
  }
  static std::string Id(int sample) { return std::to_string(sample); }
  static v1::StoreEndRequest EndByDefault(const std::string& id) {
    v1::StoreEndRequest end = End(id);
    end.clear_reward();
    end.set_detail("well");
    v1::DefaultOutcome& outcome = *end.mutable_unless_rewarded();
    outcome.set_reward(-1);
    outcome.set_detail("nobody posted a reward");
    (*outcome.mutable_signals())["malformed"] = 1;
    (*outcome.mutable_facts())["by"] = "1";
    return end;
  }

  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Over, DefaultOutcomeTest, testing::kStores, testing::kStoreName);

TEST_P(DefaultOutcomeTest, ItCountsWhereNobodyPostedAReward) {
  v1::StoreRewardRequest signal;
  signal.set_episode_id("0");
  (*signal.mutable_signals())["style"] = 2;
  ASSERT_TRUE(store_->StoreReward(signal).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(store_->StoreEnd(EndByDefault("0")).ok()) << "the end, and its repetition";
  const v1::Episode ended = Get(*store_, "0")->episode();
  EXPECT_EQ(ended.state(), v1::EPISODE_FINISHED);
  EXPECT_EQ(ended.reward(), -1);
  EXPECT_EQ(ended.detail(), "nobody posted a reward");
  EXPECT_EQ(ended.signals().at("style"), 2);
  EXPECT_EQ(ended.signals().at("malformed"), 1);
  EXPECT_EQ(ended.facts().at("by"), "1");
}

TEST_P(DefaultOutcomeTest, APostedRewardStays) {
  ASSERT_TRUE(store_->StoreReward(Reward("0", 0.75)).ok());
  ASSERT_TRUE(store_->StoreReward(Reward("1", 0)).ok());
  ASSERT_TRUE(store_->AppendCall(Append("2", 0, {Prompt({1})}, {Sampled({2})})).ok());
  v1::StoreRewardRequest of_call = Reward("2", 0, {{"2/0", 0.5}});
  of_call.clear_reward();
  ASSERT_TRUE(store_->StoreReward(of_call).ok());
  for (const std::string id : {"0", "1", "2"}) {
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(store_->StoreEnd(EndByDefault(id)).ok()) << id;
    const v1::Episode ended = Get(*store_, id)->episode();
    EXPECT_EQ(ended.state(), v1::EPISODE_FINISHED);
    EXPECT_EQ(ended.reward(), id == "0" ? 0.75 : 0) << id;
    EXPECT_TRUE(ended.has_reward()) << id;
    EXPECT_EQ(ended.detail(), "well");
    EXPECT_TRUE(ended.signals().empty()) << id;
    EXPECT_EQ(ended.call_rewards_size(), id == "2" ? 1 : 0);
  }
}

TEST_P(DefaultOutcomeTest, PostedSignalsAndFactsStay) {
  v1::StoreRewardRequest posted;
  posted.set_episode_id("0");
  (*posted.mutable_signals())["malformed"] = 5;
  (*posted.mutable_facts())["by"] = "2";
  ASSERT_TRUE(store_->StoreReward(posted).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(store_->StoreEnd(EndByDefault("0")).ok()) << "the end, and its repetition";
  const v1::Episode ended = Get(*store_, "0")->episode();
  EXPECT_EQ(ended.reward(), -1);
  EXPECT_EQ(ended.signals().at("malformed"), 5);
  EXPECT_EQ(ended.facts().at("by"), "2");
}

TEST_P(DefaultOutcomeTest, FactsThatDoNotFitAreLeftOut) {
  v1::StoreRewardRequest posted;
  posted.set_episode_id("0");
  (*posted.mutable_facts())["seen"] = std::string(200'000, '1');
  ASSERT_TRUE(store_->StoreReward(posted).ok());
  v1::StoreEndRequest end = EndByDefault("0");
  (*end.mutable_unless_rewarded()->mutable_facts())["a large one"] = std::string(100'000, '2');
  for (int i = 0; i < 2; ++i) {
    const absl::Status stored = store_->StoreEnd(end);
    ASSERT_TRUE(stored.ok()) << stored << ": the end, and its repetition";
  }
  const v1::Episode ended = Get(*store_, "0")->episode();
  EXPECT_EQ(ended.state(), v1::EPISODE_FINISHED);
  EXPECT_EQ(ended.reward(), -1);
  EXPECT_EQ(ended.facts_size(), 2);
  EXPECT_EQ(ended.facts().at("seen"), std::string(200'000, '1'));
  EXPECT_EQ(ended.facts().at("by"), "1");
}

TEST_P(DefaultOutcomeTest, AnotherEndIsAContradiction) {
  ASSERT_TRUE(store_->StoreReward(Reward("0", 0.75)).ok());
  for (const std::string id : {"0", "1"}) {
    ASSERT_TRUE(store_->StoreEnd(EndByDefault(id)).ok());
    v1::StoreEndRequest other = EndByDefault(id);
    other.set_detail("otherwise");
    other.mutable_unless_rewarded()->set_detail("otherwise too");
    EXPECT_EQ(store_->StoreEnd(other).code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(store_->StoreEnd(End(id, v1::EPISODE_FAILED, 0)).code(), absl::StatusCode::kAlreadyExists);
  }
}

TEST_P(DefaultOutcomeTest, ItIsOfAFinishedEndWithoutAnOutcome) {
  std::vector<v1::StoreEndRequest> bad(4, EndByDefault("0"));
  bad[0].set_state(v1::EPISODE_FAILED);
  bad[1].set_reward(1);
  (*bad[2].mutable_call_rewards())["0/0"] = 1;
  bad[3].mutable_unless_rewarded()->set_reward(1e9);
  for (const v1::StoreEndRequest& end : bad) {
    EXPECT_EQ(store_->StoreEnd(end).code(), absl::StatusCode::kInvalidArgument) << end.ShortDebugString();
  }
  EXPECT_EQ(Get(*store_, "0")->episode().state(), v1::EPISODE_OPEN);
}

}  // namespace
}  // namespace ingot::datapool
