#include "datapool/store.h"

#include <gmock/gmock.h>
#include <rocksdb/db.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/checksum.h"
#include "datapool/call_mutations.h"
#include "datapool/database.h"
#include "datapool/episode_mutations.h"
#include "datapool/make_pool.h"
#include "datapool/recent_calls.h"
#include "datapool/stores.h"
#include "tree/forest.h"

namespace ingot::datapool {
namespace {

using testing::Append;
using testing::BatchRecord;
using testing::ClosedRecord;
using ::testing::ElementsAre;
using testing::End;
using testing::Get;
using testing::GetGroup;
using ::testing::HasSubstr;
using testing::Open;
using testing::Prompt;
using testing::Reward;
using testing::Sampled;
using testing::TrimBelow;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

class StoreTest : public testing::StoreContract {
 protected:
  void SetUp() override {
    StoreContract::SetUp();
    if (!IsSkipped()) Reopen();
  }
  void Reopen() {
    store_.reset();
    auto store = Store::Open(Options(), 0, clock_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  // The records below the store. REQUIRES: the store is closed.
  std::unique_ptr<Database> Records() { return OpenDatabase(Options(), 0, clock_).value(); }
  v1::PoolStatusResponse Counts() {
    auto status = store_->Status().value();
    status.clear_bytes_on_disk();
    return status;
  }

  base::ManualClock clock_{std::chrono::seconds(77)};
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Over, StoreTest, testing::kStores, testing::kStoreName);

TEST_P(StoreTest, StoresAnEpisodeWithItsCallsAndSegments) {
  auto open = Open("e", 3, 1);
  open.mutable_episode()->mutable_task()->set_payload_json("{\"q\": 1}");
  ASSERT_TRUE(store_->StoreEpisode(open).ok());
  const auto second = Append("e", 1, {Prompt({1, 2, 3}), Sampled({4, 5}), Prompt({6})}, {Sampled({7}, 2)});
  const auto first = Append("e", 0, {Prompt({1, 2, 3})}, {Sampled({4, 5})});
  ASSERT_TRUE(store_->AppendCall(second).ok());  // calls may end in another order than they arrived
  ASSERT_TRUE(store_->AppendCall(first).ok());
  auto end = End("e", v1::EPISODE_FINISHED, 0.5);
  (*end.mutable_signals())["format"] = 0.25;
  (*end.mutable_call_rewards())["e/1"] = -0.5;
  end.set_detail("fine");
  end.set_ended_unix_ns(9);
  ASSERT_TRUE(store_->StoreEnd(end).ok());
  for (int round = 0; round < 2; ++round) {
    const auto tree = Get(*store_, "e");
    ASSERT_TRUE(tree.ok()) << tree.status();
    EXPECT_EQ(tree->episode().state(), v1::EPISODE_FINISHED);
    EXPECT_EQ(tree->episode().reward(), 0.5);
    EXPECT_EQ(tree->episode().signals().at("format"), 0.25);
    EXPECT_EQ(tree->episode().call_rewards().at("e/1"), -0.5);
    EXPECT_EQ(tree->episode().detail(), "fine");
    EXPECT_EQ(tree->episode().ended_unix_ns(), 9);
    EXPECT_EQ(tree->episode().task().payload_json(), "{\"q\": 1}");
    ASSERT_EQ(tree->calls_size(), 2);
    EXPECT_EQ(tree->calls(0).SerializeAsString(), first.call().SerializeAsString());
    EXPECT_EQ(tree->calls(1).SerializeAsString(), second.call().SerializeAsString());
    ASSERT_EQ(tree->segments_size(), 4);
    for (const auto& segment : second.segments()) {
      const auto& stored = tree->segments().at(base::Hex(tree::SegmentKey(segment)));
      EXPECT_EQ(stored.SerializeAsString(), segment.SerializeAsString());
    }
    const auto bare = Get(*store_, "e", false);
    EXPECT_EQ(bare->calls_size() + bare->segments_size(), 0);
    EXPECT_EQ(bare->episode().reward(), 0.5);
    const auto counts = Counts();
    EXPECT_EQ(counts.episodes(), 1);
    EXPECT_EQ(counts.calls(), 2);
    EXPECT_EQ(counts.segments(), 4);
    EXPECT_EQ(counts.segment_tokens(), 3 + 2 + 1 + 1);
    EXPECT_EQ(counts.recorded_tokens(), (3 + 2) + (3 + 2 + 1 + 1));
    EXPECT_GT(store_->Status()->bytes_on_disk(), 0);
    Reopen();
  }
}

// The record of a paused call grows slice by slice, in place.
TEST_P(StoreTest, ReplacesTheRecordOfAPausedCallByOneThatContinuesIt) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 3, 1)).ok());
  const v1::Segment prompt = Prompt({1, 2, 3}), one = Sampled({4, 5}), two = Sampled({6}, 1),
                    three = Sampled({7, 8}, 2);
  const auto paused = [](v1::AppendCallRequest request) {
    request.mutable_call()->set_finish(v1::FINISH_PAUSED);
    return request;
  };
  const auto first = paused(Append("e", 0, {prompt}, {one})), second = paused(Append("e", 0, {prompt}, {one, two}));
  auto whole = Append("e", 0, {prompt}, {one, two, three});
  whole.mutable_segments()->DeleteSubrange(0, 3);  // the pool has them
  for (const auto& append : {first, second, second, first, whole, whole, second}) {
    const absl::Status status = store_->AppendCall(append);
    ASSERT_TRUE(status.ok()) << status;
  }
  for (int round = 0; round < 2; ++round) {
    const auto tree = Get(*store_, "e");
    ASSERT_TRUE(tree.ok()) << tree.status();
    ASSERT_EQ(tree->calls_size(), 1);
    EXPECT_EQ(tree->calls(0).SerializeAsString(), whole.call().SerializeAsString());
    EXPECT_EQ(tree->segments_size(), 4);
    EXPECT_EQ(Counts().calls(), 1);
    EXPECT_EQ(Counts().segments(), 4);
    EXPECT_EQ(Counts().recorded_tokens(), 3 + 5);
    Reopen();
  }
  // A child continues the whole record, not the slice that it replaced.
  auto child = Append("e", 1, {Prompt({9})}, {Sampled({10})});
  child.mutable_call()->set_parent_call_id("e/0");
  child.mutable_call()->set_continued_segments(3);
  child.mutable_call()->set_context_tokens(3 + 5 + 1);
  EXPECT_TRUE(store_->AppendCall(child).ok());
}

TEST_P(StoreTest, KeepsAPausedCallFromRecordsThatDoNotContinueIt) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 3, 1)).ok());
  auto paused = Append("e", 0, {Prompt({1, 2, 3})}, {Sampled({4, 5}), Sampled({6}, 1)});
  paused.mutable_call()->set_finish(v1::FINISH_PAUSED);
  ASSERT_TRUE(store_->AppendCall(paused).ok());
  const auto refused = [&](const v1::AppendCallRequest& append) {
    return absl::IsAlreadyExists(store_->AppendCall(append)) && Get(*store_, "e")->calls(0).sampled_keys_size() == 2;
  };
  EXPECT_TRUE(refused(Append("e", 0, {Prompt({1, 2, 3})}, {Sampled({4, 5})}))) << "fewer ids, and it has ended";
  EXPECT_TRUE(refused(Append("e", 0, {Prompt({1, 2, 3})}, {Sampled({4, 9}), Sampled({6}, 1)}))) << "other ids";
  auto moved = Append("e", 1, {Prompt({1, 2, 3})}, {Sampled({4, 5}), Sampled({6}, 1)});
  moved.mutable_call()->set_call_id("e/0");
  EXPECT_TRUE(refused(moved)) << "another place in the episode";
  auto other = Append("e", 0, {Prompt({1, 2, 3})}, {Sampled({4, 5}), Sampled({6}, 1)});
  other.mutable_call()->set_call_id("other");
  EXPECT_TRUE(refused(other)) << "another call with its sequence number";
  auto empty = paused;
  empty.mutable_call()->clear_sampled_keys();
  empty.clear_segments();
  EXPECT_EQ(store_->AppendCall(empty).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(store_->StoreEnd(End("e", v1::EPISODE_FINISHED, 1)).ok());
  auto late = Append("e", 0, {Prompt({1, 2, 3})}, {Sampled({4, 5}), Sampled({6}, 1), Sampled({7}, 2)});
  EXPECT_EQ(store_->AppendCall(late).code(), absl::StatusCode::kFailedPrecondition) << "the episode has ended";
  EXPECT_EQ(Get(*store_, "e")->calls(0).finish(), v1::FINISH_PAUSED);
}

// Equal ids that stand for different images are different segments, before a restart and after it.
TEST_P(StoreTest, KeepsPlaceholdersAndRoutes) {
  const auto image = [](const std::string& content) {
    v1::Segment prompt = Prompt({1, 2, 2});
    v1::Placeholders* run = prompt.add_placeholders();
    run->set_first(1);
    run->set_count(2);
    run->set_content(content);
    return prompt;
  };
  v1::Segment routed = Sampled({4, 5});
  routed.set_routes(std::string("\1\0\2\0", 4));
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 3, 1)).ok());
  ASSERT_TRUE(store_->AppendCall(Append("e", 0, {image("image-01")}, {routed})).ok());
  ASSERT_TRUE(store_->AppendCall(Append("e", 1, {image("image-02")}, {Sampled({6})})).ok());
  ASSERT_TRUE(store_->AppendCall(Append("e", 2, {image("image-01")}, {Sampled({7})})).ok());
  for (int round = 0; round < 2; ++round) {
    const auto tree = Get(*store_, "e");
    ASSERT_TRUE(tree.ok()) << tree.status();
    ASSERT_EQ(tree->segments_size(), 2 + 3);
    EXPECT_EQ(tree->calls(0).context_keys(0), tree->calls(2).context_keys(0));
    for (int call = 0; call < 2; ++call) {
      const v1::Segment& stored = tree->segments().at(base::Hex(tree->calls(call).context_keys(0)));
      EXPECT_EQ(stored.placeholders(0).content(), call == 0 ? "image-01" : "image-02");
    }
    EXPECT_EQ(tree->segments().at(base::Hex(tree->calls(0).sampled_keys(0))).routes(), routed.routes());
    const auto paths = tree::CallPathsOf(*tree, 0, 0);
    ASSERT_TRUE(paths.ok()) << paths.status();
    const std::vector<int32_t> all = {0, 1, 2};
    EXPECT_EQ(tree::PackForest(*paths, all)->size(), 1u + 2 * 2 + 2 + 1 + 1);
    Reopen();
  }
}

// The second id is the key of the progress of "e".
TEST_P(StoreTest, AnInvalidEpisodeIdIsRejected) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  for (const std::string& id : {std::string(), std::string("\0e", 2), std::string(257, 'x')}) {
    EXPECT_EQ(Get(*store_, id).status().code(), absl::StatusCode::kInvalidArgument) << id.size();
  }
  EXPECT_EQ(Get(*store_, std::string(256, 'x')).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreTest, ARepeatedMutationIsOkAndAContradictionIsNot) {
  const auto open = Open("e", 0, 0);
  const auto call = Append("e", 0, {Prompt({1})}, {Sampled({2})});
  ASSERT_TRUE(store_->StoreEpisode(open).ok());
  ASSERT_TRUE(store_->AppendCall(call).ok());
  ASSERT_TRUE(store_->StoreEnd(End("e")).ok());
  const auto before = Counts();

  EXPECT_TRUE(store_->StoreEpisode(open).ok());
  EXPECT_TRUE(store_->AppendCall(call).ok());  // a repeated call is OK after the end of its episode
  auto later = End("e");
  later.set_ended_unix_ns(123);
  EXPECT_TRUE(store_->StoreEnd(later).ok());
  EXPECT_EQ(Get(*store_, "e")->episode().ended_unix_ns(), 0);  // the first time stays

  auto other_open = Open("e", 0, 1);
  EXPECT_EQ(store_->StoreEpisode(other_open).code(), absl::StatusCode::kAlreadyExists);
  auto other_call = call;
  other_call.mutable_call()->set_branch("else");
  EXPECT_EQ(store_->AppendCall(other_call).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->StoreEnd(End("e", v1::EPISODE_FINISHED, 0)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->StoreEnd(End("e", v1::EPISODE_FAILED)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Counts().SerializeAsString(), before.SerializeAsString());
}

TEST_P(StoreTest, RewardsOfAnOpenEpisodeAddUpAndTheLastOfANameWins) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  EXPECT_FALSE(Get(*store_, "e")->episode().has_reward());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(store_->AppendCall(Append("e", i, {Prompt({i})}, {Sampled({2})})).ok());
  auto first = Reward("e", 0.25, {{"e/0", 1}, {"e/1", 2}});
  (*first.mutable_signals())["style"] = 3;
  (*first.mutable_facts())["seen"] = "[1]";
  ASSERT_TRUE(store_->StoreReward(first).ok());
  auto second = Reward("e", 0, {{"e/1", -2}, {"e/2", 4}});
  second.clear_reward();  // keeps the reward
  (*second.mutable_signals())["speed"] = 5;
  ASSERT_TRUE(store_->StoreReward(second).ok());
  EXPECT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok()) << "a repeated opening does not look at it";
  for (int round = 0; round < 3; ++round) {
    const v1::Episode episode = Get(*store_, "e")->episode();
    EXPECT_EQ(episode.state(), v1::EPISODE_OPEN);
    EXPECT_TRUE(episode.has_reward());
    EXPECT_EQ(episode.reward(), 0.25);
    EXPECT_EQ(std::map(episode.call_rewards().begin(), episode.call_rewards().end()),
              (std::map<std::string, double>{{"e/0", 1}, {"e/1", -2}, {"e/2", 4}}));
    EXPECT_EQ(std::map(episode.signals().begin(), episode.signals().end()),
              (std::map<std::string, double>{{"style", 3}, {"speed", 5}}));
    EXPECT_EQ(episode.facts().at("seen"), "[1]");
    Reopen();
    ASSERT_TRUE(store_->StoreReward(second).ok()) << "again";
  }
  EXPECT_EQ(store_->StoreReward(Reward("nobody", 1)).code(), absl::StatusCode::kNotFound);
}

// Its writer may not know what the episode holds. An end with more facts is rejected.
TEST_P(StoreTest, RewardsOfAnEpisodeStayWithinItsBoundsTogether) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  const std::string large(200'000, '1');
  const auto post = [&](const std::string& name, double reward) {
    auto request = Reward("e", reward);
    (*request.mutable_facts())[name] = large;
    return store_->StoreReward(request);
  };
  ASSERT_TRUE(post("first", 0.25).ok());
  const absl::Status second = post("second", 0.5);
  EXPECT_EQ(second.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(second), HasSubstr("2 facts"));
  EXPECT_EQ(Get(*store_, "e")->episode().reward(), 0.25) << "all or nothing";
  ASSERT_TRUE(post("first", 0.75).ok()) << "it takes the place of the first";
  auto signals = Reward("e", 0.75);
  for (int i = 0; i < 256; ++i) (*signals.mutable_signals())["signal " + std::to_string(i)] = i;
  ASSERT_TRUE(store_->StoreReward(signals).ok());
  signals.clear_signals();
  (*signals.mutable_signals())["another"] = 1;
  EXPECT_EQ(store_->StoreReward(signals).code(), absl::StatusCode::kInvalidArgument);
  const v1::Episode stored = Get(*store_, "e")->episode();
  EXPECT_EQ(stored.facts_size(), 1);
  EXPECT_EQ(stored.signals_size(), 256);
  auto end = End("e", v1::EPISODE_FINISHED, stored.reward());
  *end.mutable_signals() = stored.signals();
  *end.mutable_facts() = stored.facts();
  ASSERT_TRUE(store_->StoreEnd(end).ok());
  EXPECT_EQ(Get(*store_, "e")->episode().reward(), 0.75);
  EXPECT_EQ(Get(*store_, "e")->episode().facts().at("first"), large);
}

TEST_P(StoreTest, RewardsNameCallsOfTheirEpisodeOrNothingIsWritten) {
  for (const char* id : {"e", "ee"}) {
    ASSERT_TRUE(store_->StoreEpisode(Open(id, 0, id[1] == 'e')).ok());
    ASSERT_TRUE(store_->AppendCall(Append(id, 0, {Prompt({1})}, {})).ok());
  }
  for (const char* call : {"e/1", "ee/0", ""}) {
    const auto status = store_->StoreReward(Reward("e", 1, {{"e/0", 1}, {call, 1}}));
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << call;
    EXPECT_THAT(Text(status), HasSubstr(std::string("'") + call + "'"));
    auto end = End("e");
    (*end.mutable_call_rewards())[call] = 1;
    EXPECT_EQ(store_->StoreEnd(end).code(), absl::StatusCode::kNotFound) << call;
  }
  EXPECT_FALSE(Get(*store_, "e")->episode().has_reward());
  EXPECT_EQ(Get(*store_, "e")->episode().call_rewards_size(), 0);
  EXPECT_EQ(Get(*store_, "e")->episode().state(), v1::EPISODE_OPEN);
}

TEST_P(StoreTest, AnEndReplacesTheRewardsAndNoneFollowIt) {
  for (const char* id : {"done", "left"}) {
    ASSERT_TRUE(store_->StoreEpisode(Open(id, 0, id[0] == 'l')).ok());
    ASSERT_TRUE(store_->AppendCall(Append(id, 0, {Prompt({1})}, {})).ok());
    ASSERT_TRUE(store_->StoreReward(Reward(id, 0.5, {{std::string(id) + "/0", 1}})).ok());
  }
  ASSERT_TRUE(store_->StoreEnd(End("done", v1::EPISODE_FINISHED, 0.75)).ok());
  const v1::Episode ended = Get(*store_, "done")->episode();
  EXPECT_EQ(ended.reward(), 0.75);
  EXPECT_EQ(ended.call_rewards_size(), 0);
  EXPECT_TRUE(store_->StoreReward(Reward("done", 0.75)).ok()) << "it says nothing new";
  const auto late = store_->StoreReward(Reward("done", 0.5));
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(late), HasSubstr("FINISHED"));
  // A newer attempt fences this one. The rewards stay with the older attempt.
  ASSERT_TRUE(store_->StoreEpisode(Open("again", 0, 1, 1)).ok());
  EXPECT_EQ(store_->StoreReward(Reward("left", 1)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Get(*store_, "left")->episode().reward(), 0.5);
  EXPECT_FALSE(Get(*store_, "again")->episode().has_reward());
}

TEST_P(StoreTest, AnEndWithoutARewardKeepsThoseThatWerePosted) {
  const v1::EpisodeState ends[] = {v1::EPISODE_FINISHED, v1::EPISODE_FAILED, v1::EPISODE_FENCED};
  for (int i = 0; i < 3; ++i) {
    const std::string id = "e" + std::to_string(i);
    ASSERT_TRUE(store_->StoreEpisode(Open(id, 0, i)).ok());
    ASSERT_TRUE(store_->AppendCall(Append(id, 0, {Prompt({1})}, {})).ok());
    auto posted = Reward(id, 0.5, {{id + "/0", 1}});
    (*posted.mutable_signals())["style"] = 3;
    (*posted.mutable_facts())["seen"] = "[1]";
    ASSERT_TRUE(store_->StoreReward(posted).ok());
    auto end = End(id, ends[i]);
    end.clear_reward();
    (*end.mutable_signals())["agent/crash"] = 1;
    for (int round = 0; round < 2; ++round) {
      ASSERT_TRUE(store_->StoreEnd(end).ok()) << "the end, and its repetition after a restart";
      const v1::Episode ended = Get(*store_, id)->episode();
      EXPECT_EQ(ended.state(), ends[i]);
      EXPECT_EQ(ended.reward(), 0.5);
      EXPECT_EQ(ended.call_rewards().at(id + "/0"), 1);
      EXPECT_EQ(std::map(ended.signals().begin(), ended.signals().end()),
                (std::map<std::string, double>{{"style", 3}, {"agent/crash", 1}}));
      EXPECT_EQ(ended.facts().at("seen"), "[1]");
      Reopen();
    }
  }
  // Without any post there is none.
  ASSERT_TRUE(store_->StoreEpisode(Open("none", 1, 0)).ok());
  auto end = End("none", v1::EPISODE_FENCED);
  end.clear_reward();
  ASSERT_TRUE(store_->StoreEnd(end).ok());
  EXPECT_FALSE(Get(*store_, "none")->episode().has_reward());
}

// A damaged opening proves that no mutation reads it.
TEST_P(StoreTest, AppendsAndRewardsNeitherReadNorWriteTheTask) {
  std::map<std::string, size_t> written;
  for (const char* id : {"small", "large"}) {
    auto open = Open(id, 0, id[0] == 'l' ? 1 : 2);
    if (id[0] == 'l') open.mutable_episode()->mutable_task()->set_payload_json(std::string(1 << 20, 'x'));
    ASSERT_TRUE(store_->StoreEpisode(open).ok());
  }
  store_.reset();
  {
    auto database = Records();
    v1::PoolStatusResponse counters;
    for (const char* id : {"small", "large"}) {
      auto batch = database->NewBatch();
      const auto append = Append(id, 0, {Prompt({1})}, {Sampled({2})});
      batch->Put(kEpisodes, id, "\xff no episode");
      CallSummary summary;
      ASSERT_TRUE(StageAppendCall(*batch, counters, PrepareCall(append).value(), RecentCalls(1), summary).ok());
      for (int i = 0; i < 100; ++i)
        ASSERT_TRUE(StageStoreReward(*batch, Reward(id, i, {{std::string(id) + "/0", 1}})).ok());
      ASSERT_TRUE(StageStoreEnd(*batch, End(id)).ok());
      written[id] = batch->bytes();
    }
  }
  EXPECT_EQ(written["large"], written["small"]);
  EXPECT_LT(written["large"], 50000);
}

TEST_P(StoreTest, ACallNeedsItsEpisodeOpenAndItsSequenceFree) {
  const auto call = Append("e", 0, {Prompt({1})}, {Sampled({2})});
  EXPECT_EQ(store_->AppendCall(call).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->StoreEnd(End("e")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Get(*store_, "e").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  ASSERT_TRUE(store_->AppendCall(call).ok());
  auto same_place = call;
  same_place.mutable_call()->set_call_id("another");
  EXPECT_EQ(store_->AppendCall(same_place).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(store_->StoreEnd(End("e", v1::EPISODE_FAILED, 0)).ok());
  const auto late = store_->AppendCall(Append("e", 1, {Prompt({1})}, {}));
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(late), HasSubstr("FAILED"));
}

TEST_P(StoreTest, MissingSegmentsAreNamedAndNothingIsWritten) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  const auto whole = Append("e", 0, {Prompt({1}), Prompt({2})}, {Sampled({3})});
  auto partial = whole;
  partial.mutable_segments()->DeleteSubrange(0, 2);
  const auto before = Counts();
  const absl::Status status = store_->AppendCall(partial);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const std::string first = base::Hex(whole.call().context_keys(0)), second = base::Hex(whole.call().context_keys(1));
  EXPECT_THAT(Text(status), HasSubstr(first));
  EXPECT_EQ(std::string(status.GetPayload(kMissingSegments).value()), first + "," + second);
  EXPECT_EQ(Counts().SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(Get(*store_, "e")->segments_size(), 0);
  ASSERT_TRUE(store_->AppendCall(whole).ok());
  // Now the group holds them, for this and for its other episodes.
  ASSERT_TRUE(store_->StoreEpisode(Open("f", 0, 1)).ok());
  auto bare = Append("f", 0, {Prompt({1}), Prompt({2})}, {});
  bare.clear_segments();
  EXPECT_TRUE(store_->AppendCall(bare).ok());
  EXPECT_EQ(Counts().segments(), 3);
  EXPECT_EQ(Get(*store_, "f")->segments_size(), 2);
}

// A call of `episode` that continues its call `parent`.
v1::AppendCallRequest Continue(const std::string& episode, int sequence, int parent, int segments, int64_t tokens,
                               const std::vector<v1::Segment>& context, const std::vector<v1::Segment>& sampled) {
  v1::AppendCallRequest request = Append(episode, sequence, context, sampled);
  request.mutable_call()->set_parent_call_id(episode + "/" + std::to_string(parent));
  request.mutable_call()->set_continued_segments(segments);
  request.mutable_call()->set_context_tokens(tokens);
  return request;
}

TEST_P(StoreTest, AContinuingCallCountsItsWholePrompt) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  ASSERT_TRUE(store_->StoreEpisode(Open("f", 0, 1)).ok());
  ASSERT_TRUE(store_->AppendCall(Append("e", 0, {Prompt({1, 2})}, {Sampled({3}), Sampled({4, 5, 6})})).ok());
  EXPECT_EQ(Counts().recorded_tokens(), 6);
  const auto second = Continue("e", 1, 0, 2, 7, {Prompt({7})}, {Sampled({8, 9})});
  ASSERT_TRUE(store_->AppendCall(second).ok());
  ASSERT_TRUE(store_->AppendCall(second).ok()) << "told again";
  EXPECT_EQ(Counts().recorded_tokens(), 6 + 9);
  ASSERT_TRUE(store_->AppendCall(Continue("e", 2, 1, 0, 8, {Prompt({7})}, {})).ok()) << "none of what that sampled";
  ASSERT_TRUE(store_->AppendCall(Continue("e", 3, 1, 1, 9, {}, {Sampled({1})})).ok())
      << "nothing new before it samples";
  EXPECT_EQ(Counts().recorded_tokens(), 6 + 9 + 8 + 10);
  EXPECT_EQ(Get(*store_, "e")->calls_size(), 4);

  const auto before = Counts();
  const auto rejected = [&](const v1::AppendCallRequest& request, absl::StatusCode code, const std::string& why) {
    const absl::Status status = store_->AppendCall(request);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(Text(status), HasSubstr(why));
  };
  rejected(Continue("e", 4, 9, 0, 8, {Prompt({7})}, {}), absl::StatusCode::kFailedPrecondition,
           "is not in its episode");
  auto elsewhere = Continue("f", 0, 0, 1, 4, {Prompt({7})}, {});
  elsewhere.mutable_call()->set_parent_call_id("e/0");
  rejected(elsewhere, absl::StatusCode::kFailedPrecondition, "is not in its episode");
  rejected(Continue("e", 4, 0, 3, 7, {Prompt({7})}, {}), absl::StatusCode::kInvalidArgument, "sampled 2");
  rejected(Continue("e", 4, 0, 2, 8, {Prompt({7})}, {}), absl::StatusCode::kInvalidArgument, "has 7");
  auto whole = Append("e", 4, {Prompt({1, 2})}, {});
  whole.mutable_call()->set_context_tokens(3);
  rejected(whole, absl::StatusCode::kInvalidArgument, "has 2");
  EXPECT_EQ(Counts().SerializeAsString(), before.SerializeAsString());
}

// RecentCalls holds the parent in the first round; the second round reads it from the database.
TEST_P(StoreTest, ContinuingACachedCallEqualsContinuingAStoredOne) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  ASSERT_TRUE(store_->StoreEpisode(Open("f", 0, 1)).ok());
  const auto first = Append("e", 0, {Prompt({1, 2})}, {Sampled({3}), Sampled({4, 5, 6})});
  ASSERT_TRUE(store_->AppendCall(first).ok());
  int32_t sequence = 1;
  for (int round = 0; round < 2; ++round) {
    const auto rejected = [&](const v1::AppendCallRequest& request, absl::StatusCode code, const std::string& why) {
      const absl::Status status = store_->AppendCall(request);
      EXPECT_EQ(status.code(), code) << status;
      EXPECT_THAT(Text(status), HasSubstr(why));
    };
    auto elsewhere = Continue("f", 0, 0, 1, 4, {Prompt({7})}, {});
    elsewhere.mutable_call()->set_parent_call_id("e/0");
    rejected(elsewhere, absl::StatusCode::kFailedPrecondition, "is not in its episode");
    rejected(Continue("e", sequence, 0, 3, 7, {Prompt({7})}, {}), absl::StatusCode::kInvalidArgument, "sampled 2");
    rejected(Continue("e", sequence, 0, 2, 8, {Prompt({7})}, {}), absl::StatusCode::kInvalidArgument, "has 7");
    rejected(Continue("e", sequence, 0, 1, 7, {Prompt({7})}, {}), absl::StatusCode::kInvalidArgument, "has 4");
    ASSERT_TRUE(store_->AppendCall(Continue("e", sequence++, 0, 1, 4, {Prompt({7})}, {})).ok());
    ASSERT_TRUE(store_->AppendCall(Continue("e", sequence++, 0, 2, 6, {}, {Sampled({9})})).ok());
    Reopen();
  }
  EXPECT_EQ(Counts().recorded_tokens(), 2 + 4 + 2 * (4 + 6 + 1));
}

TEST_P(StoreTest, AnEpisodeOpenedAgainAfterATrimHasNoCalls) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  const auto first = Append("e", 0, {Prompt({1, 2})}, {Sampled({3})});
  ASSERT_TRUE(store_->AppendCall(first).ok());
  ASSERT_TRUE(store_->StoreEnd(End("e")).ok());
  ASSERT_TRUE(store_->AppendJournal(BatchRecord(0, {0})).ok());
  ASSERT_EQ(TrimBelow(*store_, 1), 1);
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 5, 0)).ok());
  const absl::Status status = store_->AppendCall(Continue("e", 1, 0, 1, 4, {Prompt({7})}, {}));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(Text(status), HasSubstr("is not in its episode"));
}

TEST(RecentCalls, HoldsTheNewerHalfAndNothingAddedBeforeForgetAll) {
  RecentCalls recent(10);
  for (int i = 0; i < 100; ++i) recent.Add(recent.generation(), std::to_string(i), {"e", i, {1}});
  int known = 0;
  for (int i = 0; i < 100; ++i) known += recent.Find(std::to_string(i)).has_value() ? 1 : 0;
  EXPECT_GE(known, 5);
  EXPECT_LE(known, 10);
  for (int i = 95; i < 100; ++i) EXPECT_EQ(recent.Find(std::to_string(i))->context_tokens, i);
  const uint64_t before = recent.generation();
  recent.ForgetAll();
  EXPECT_FALSE(recent.Find("99").has_value());
  recent.Add(before, "late", {"e", 1, {}});
  EXPECT_FALSE(recent.Find("late").has_value());
  recent.Add(recent.generation(), "new", {"e", 1, {}});
  EXPECT_TRUE(recent.Find("new").has_value());
}

TEST_P(StoreTest, RejectsUnnamedSegmentsAndPromptsNamedAsSampled) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  auto extra = Append("e", 0, {Prompt({1})}, {});
  *extra.add_segments() = Prompt({9});
  EXPECT_EQ(store_->AppendCall(extra).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->AppendCall(Append("e", 0, {Prompt({1})}, {Prompt({2})})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Counts().segments(), 0);
}

TEST_P(StoreTest, ANewAttemptFencesTheOlderOne) {
  ASSERT_TRUE(store_->StoreEpisode(Open("a0", 5, 2, 0)).ok());
  ASSERT_TRUE(store_->AppendCall(Append("a0", 0, {Prompt({1})}, {})).ok());
  ASSERT_TRUE(store_->StoreEpisode(Open("other", 5, 1, 0)).ok());
  ASSERT_TRUE(store_->StoreEpisode(Open("eval", 5, 2, 0, v1::PURPOSE_EVAL)).ok());
  ASSERT_TRUE(store_->StoreEpisode(Open("a2", 5, 2, 2)).ok());
  const auto fenced = Get(*store_, "a0")->episode();
  EXPECT_EQ(fenced.state(), v1::EPISODE_FENCED);
  EXPECT_EQ(fenced.ended_unix_ns(), clock_.UnixNanos());
  EXPECT_EQ(store_->AppendCall(Append("a0", 1, {Prompt({1})}, {})).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->StoreEnd(End("a0")).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(store_->StoreEnd(End("a0", v1::EPISODE_FENCED, 0)).ok());
  EXPECT_TRUE(store_->AppendCall(Append("a0", 0, {Prompt({1})}, {})).ok());  // repeated
  EXPECT_EQ(Get(*store_, "other")->episode().state(), v1::EPISODE_OPEN);
  EXPECT_EQ(Get(*store_, "eval")->episode().state(), v1::EPISODE_OPEN);
  EXPECT_EQ(store_->StoreEpisode(Open("a1", 5, 2, 1)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->StoreEpisode(Open("a2b", 5, 2, 2)).code(), absl::StatusCode::kAlreadyExists);
  // An ended attempt keeps its end.
  ASSERT_TRUE(store_->StoreEnd(End("a2", v1::EPISODE_FAILED, 0)).ok());
  ASSERT_TRUE(store_->StoreEpisode(Open("a3", 5, 2, 3)).ok());
  EXPECT_EQ(Get(*store_, "a2")->episode().state(), v1::EPISODE_FAILED);

  const auto group = GetGroup(*store_, 5);
  ASSERT_TRUE(group.ok());
  ASSERT_EQ(group->episodes_size(), 2);
  EXPECT_EQ(group->episodes(0).episode().episode_id(), "other");
  EXPECT_EQ(group->episodes(1).episode().episode_id(), "a3");
  EXPECT_EQ(group->task().task_id(), "task-5");
  EXPECT_EQ(GetGroup(*store_, 6).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreTest, EpisodesThatServeHaveNoSamplesToFence) {
  for (const char* id : {"s1", "s2"}) {
    ASSERT_TRUE(store_->StoreEpisode(Open(id, 0, 0, 0, v1::PURPOSE_SERVE)).ok());
  }
  EXPECT_EQ(Get(*store_, "s1")->episode().state(), v1::EPISODE_OPEN);
  v1::ListEpisodesRequest list;
  list.set_purpose(v1::PURPOSE_SERVE);
  EXPECT_EQ(store_->ListEpisodes(list)->episodes_size(), 2);
  EXPECT_EQ(GetGroup(*store_, 0, v1::PURPOSE_SERVE).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(StoreTest, ListsInOrderAndInPages) {
  for (int group = 0; group < 5; ++group) {
    for (int sample = 0; sample < 3; ++sample) {
      const std::string id = std::to_string(group) + std::to_string(sample);
      ASSERT_TRUE(store_->StoreEpisode(Open(id + "a", 250 + group, sample, 0)).ok());
      if (sample == 1) {
        ASSERT_TRUE(store_->StoreEpisode(Open(id + "b", 250 + group, sample, 1)).ok());
      }
    }
  }
  v1::ListEpisodesRequest list;
  const auto ids = [&] {
    std::vector<std::string> found;
    const auto page = store_->ListEpisodes(list).value();
    for (const auto& episode : page.episodes()) found.push_back(episode.episode_id());
    return found;
  };
  list.set_last_group(-1);
  EXPECT_EQ(ids().size(), 15u);
  EXPECT_FALSE(store_->ListEpisodes(list)->more());
  list.set_first_group(251);
  list.set_limit(5);
  const auto next_page = [&] {
    const auto page = store_->ListEpisodes(list).value();
    EXPECT_EQ(page.more(), !page.next().empty());
    list.set_after(page.next());
    std::vector<std::string> found;
    for (const auto& episode : page.episodes()) found.push_back(episode.episode_id());
    return found;
  };
  EXPECT_THAT(next_page(), ElementsAre("10a", "11b", "12a", "20a", "21b"));
  EXPECT_THAT(next_page(), ElementsAre("22a", "30a", "31b", "32a", "40a"));
  EXPECT_THAT(next_page(), ElementsAre("41b", "42a"));
  EXPECT_EQ(list.after(), "");
  list.set_all_attempts(true);
  list.set_limit(2);  // a page may end between two attempts
  EXPECT_THAT(next_page(), ElementsAre("10a", "11a"));
  EXPECT_THAT(next_page(), ElementsAre("11b", "12a"));
  list.set_after("");
  list.set_all_attempts(false);
  list.set_first_group(254);
  list.set_limit(3);
  EXPECT_FALSE(store_->ListEpisodes(list)->more());
  list.set_limit(0);
  list.set_first_group(251);
  list.set_last_group(251);
  list.set_all_attempts(true);
  EXPECT_THAT(ids(), ElementsAre("10a", "11a", "11b", "12a"));
  list.set_limit(-1);
  EXPECT_EQ(store_->ListEpisodes(list).status().code(), absl::StatusCode::kInvalidArgument);
}

// Groups of 24 and 48 MiB on pages of 32 MiB: every page begins where the last one ended.
TEST_P(StoreTest, GroupsLargerThanAPageAreRead) {
  const std::string payload(size_t{4} << 20, 'x');
  const std::vector<int> samples = {6, 6, 12, 1};
  for (int group = 0; group < 4; ++group) {
    for (int sample = 0; sample < samples[group]; ++sample) {
      auto request = Open(std::to_string(group) + "/" + std::to_string(sample), group, sample);
      request.mutable_episode()->mutable_task()->set_payload_json(payload);
      ASSERT_TRUE(store_->StoreEpisode(request).ok());
    }
  }
  std::vector<int> read(4);
  int pages = 0;
  for (EpisodePages all(*store_, v1::PURPOSE_TRAIN, 0, -1); !all.done(); ++pages) {
    const auto page = all.Next();
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LT(page->ByteSizeLong(), 37u << 20);
    for (const auto& episode : page->episodes()) ++read[episode.ref().group_id()];
  }
  EXPECT_EQ(read, samples);
  EXPECT_EQ(pages, 4);
}

TEST_P(StoreTest, ListsOpenEpisodesAlone) {
  for (int group = 0; group < 6; ++group) {
    const std::string id = "e" + std::to_string(group);
    ASSERT_TRUE(store_->StoreEpisode(Open(id, group, 0)).ok());
    if (group % 3 != 1) {
      ASSERT_TRUE(store_->StoreEnd(End(id)).ok());
    }
  }
  std::vector<std::string> ids;
  for (EpisodePages open(*store_, v1::PURPOSE_TRAIN, 0, -1, true); !open.done();) {
    const auto page = open.Next().value();
    for (const auto& episode : page.episodes()) ids.push_back(episode.episode_id());
  }
  EXPECT_THAT(ids, ElementsAre("e1", "e4"));
}

TEST_P(StoreTest, JournalIsGaplessAndARepeatedAppendIsWrittenOnce) {
  v1::AppendJournalRequest two = BatchRecord(0, {4, 2});
  two.add_records()->mutable_live()->set_version(1);
  two.mutable_records(0)->set_index(99);  // set by the pool
  EXPECT_EQ(store_->AppendJournal(two).value(), 0);
  EXPECT_EQ(store_->AppendJournal(BatchRecord(1, {5})).value(), 2);
  Reopen();
  EXPECT_EQ(store_->AppendJournal(two).value(), 0);
  EXPECT_EQ(store_->AppendJournal(BatchRecord(1, {5})).value(), 2);
  EXPECT_EQ(store_->AppendJournal(BatchRecord(1, {6})).value(), 3);
  EXPECT_EQ(store_->AppendJournal(v1::AppendJournalRequest()).status().code(), absl::StatusCode::kInvalidArgument);
  v1::AppendJournalRequest empty;
  empty.add_records();
  EXPECT_EQ(store_->AppendJournal(empty).status().code(), absl::StatusCode::kInvalidArgument);

  v1::ReadJournalRequest read;
  const auto all = store_->ReadJournal(read).value();
  ASSERT_EQ(all.records_size(), 4);
  EXPECT_EQ(all.end_index(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(all.records(i).index(), i);
    EXPECT_EQ(all.records(i).unix_ns(), clock_.UnixNanos());
  }
  EXPECT_THAT(all.records(0).batch().group_ids(), ElementsAre(4, 2));
  EXPECT_EQ(all.records(1).live().version(), 1);
  read.set_from_index(1);
  read.set_limit(2);
  const auto part = store_->ReadJournal(read).value();
  ASSERT_EQ(part.records_size(), 2);
  EXPECT_EQ(part.records(0).index(), 1);
  EXPECT_EQ(part.end_index(), 4);
  read.set_from_index(4);
  EXPECT_EQ(store_->ReadJournal(read)->records_size(), 0);
}

// A writer may give up on an append and send another, and the first may still arrive.
TEST_P(StoreTest, AnAppendAtAnotherIndexThanExpectedIsRejected) {
  const auto at = [](v1::AppendJournalRequest request, int64_t index) {
    request.set_expected_index(index);
    return request;
  };
  EXPECT_EQ(store_->AppendJournal(at(BatchRecord(0, {4}), 1)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->AppendJournal(at(BatchRecord(0, {4}), 0)).value(), 0);
  EXPECT_EQ(store_->AppendJournal(at(BatchRecord(0, {5}), 0)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->AppendJournal(at(BatchRecord(1, {5}), 1)).value(), 1);
  // A repeated append returns its first index, whatever the journal's end and the expected index are.
  EXPECT_EQ(store_->AppendJournal(at(BatchRecord(0, {4}), 0)).value(), 0);
  EXPECT_EQ(store_->AppendJournal(BatchRecord(0, {4})).value(), 0);
  EXPECT_EQ(Counts().journal_end(), 2);
}

// A leader that was paused goes on after another one took its place.
TEST_P(StoreTest, TheJournalRejectsAnEarlierLeader) {
  const auto under = [](v1::AppendJournalRequest request, int64_t token) {
    request.set_fencing_token(token);
    return request;
  };
  EXPECT_EQ(store_->AppendJournal(BatchRecord(0, {4})).value(), 0) << "no leader yet";
  const int64_t first = LeadJournal(*store_, 7).value();
  EXPECT_EQ(first, 7);
  EXPECT_EQ(Counts().writer_token(), 7);
  EXPECT_EQ(Counts().journal_end(), 1);
  EXPECT_EQ(store_->AppendJournal(BatchRecord(1, {5})).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->AppendJournal(under(BatchRecord(1, {5}), first)).value(), 1);
  // A registry that was made anew counts from the beginning, and the pool does not.
  const int64_t second = LeadJournal(*store_, 2).value();
  EXPECT_EQ(second, 8);
  Reopen();
  for (const auto& late : {BatchRecord(2, {6}), BatchRecord(1, {5})}) {
    const absl::Status rejected = store_->AppendJournal(under(late, first)).status();
    EXPECT_EQ(rejected.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(rejected.message()), HasSubstr("under token 8; this append has token 7"));
  }
  // Of two that read the same token, one leads.
  EXPECT_EQ(store_->AppendJournal(under({}, second)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->AppendJournal(under(BatchRecord(1, {5}), second)).value(), 1) << "the repetition of a record";
  EXPECT_EQ(store_->AppendJournal(under(BatchRecord(2, {6}), second)).value(), 2);
  // A refused place raises no token.
  v1::AppendJournalRequest misplaced = under(BatchRecord(3, {7}), 20);
  misplaced.set_expected_index(9);
  EXPECT_EQ(store_->AppendJournal(misplaced).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Counts().writer_token(), 8);
  EXPECT_EQ(Counts().journal_end(), 3);
}

// The same for the gateway of an episode.
TEST_P(StoreTest, ATakenEpisodeRejectsItsEarlierGateway) {
  const auto take = [&](const std::string& gateway, int64_t token) {
    v1::TakeOverEpisodeRequest request;
    request.set_episode_id("e");
    request.set_gateway(gateway);
    request.set_gateway_token(token);
    return store_->TakeOverEpisode(request);
  };
  const auto under = [](auto request, int64_t token) {
    request.set_gateway_token(token);
    return request;
  };
  EXPECT_EQ(take("a", 1).status().code(), absl::StatusCode::kNotFound);
  v1::StoreEpisodeRequest open = Open("e", 0, 0);
  open.mutable_episode()->set_gateway("a");
  open.mutable_episode()->set_gateway_token(1);
  ASSERT_TRUE(store_->StoreEpisode(open).ok());
  ASSERT_TRUE(store_->AppendCall(under(Append("e", 0, {Prompt({1, 2})}, {Sampled({3})}), 1)).ok());
  EXPECT_EQ(take("b", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(take("b", 1).status().code(), absl::StatusCode::kFailedPrecondition) << "a has the same token";
  for (int again = 0; again < 2; ++again) {
    const auto taken = take("b", 2);
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(taken->calls_size(), 1);
    EXPECT_EQ(taken->segments_size(), 2);
    EXPECT_EQ(taken->episode().gateway(), "b");
    EXPECT_EQ(taken->episode().gateway_token(), 2);
  }
  EXPECT_EQ(take("c", 2).status().code(), absl::StatusCode::kFailedPrecondition);
  Reopen();
  const absl::Status call = store_->AppendCall(under(Append("e", 1, {Prompt({1, 2})}, {}), 1));
  EXPECT_EQ(call.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(call.message()), HasSubstr("is now served by b under token 2; this request has token 1"));
  EXPECT_EQ(store_->StoreReward(under(Reward("e", 1), 1)).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->StoreEnd(under(End("e"), 1)).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Get(*store_, "e")->calls_size(), 1);
  EXPECT_EQ(Get(*store_, "e")->episode().state(), v1::EPISODE_OPEN);
  ASSERT_TRUE(store_->AppendCall(under(Append("e", 1, {Prompt({1, 2})}, {}), 2)).ok());
  ASSERT_TRUE(store_->StoreEnd(under(End("e"), 2)).ok());
  EXPECT_EQ(take("c", 3).status().code(), absl::StatusCode::kFailedPrecondition) << "it has ended";
}

// Its writer gave it up, and has sent later ones.
TEST_P(StoreTest, ALateRewardReplacesNoLaterOne) {
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok());
  const auto post = [&](int64_t number, double reward, const std::string& signal = "") {
    v1::StoreRewardRequest request = Reward("e", reward);
    request.set_number(number);
    if (!signal.empty()) (*request.mutable_signals())[signal] = reward;
    return store_->StoreReward(request);
  };
  ASSERT_TRUE(post(1, 0.25).ok());
  ASSERT_TRUE(post(3, 0.75).ok());
  for (int round = 0; round < 2; ++round) {
    const absl::Status late = post(2, 0.5);
    EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Text(late), HasSubstr("request 2 was late, because number 3 is already stored"));
    EXPECT_FALSE(post(2, 0.75, "late").ok()) << "all or nothing";
    EXPECT_FALSE(post(3, 0.5).ok()) << "another one with the same number";
    EXPECT_TRUE(post(3, 0.75).ok()) << "a repetition";
    EXPECT_EQ(Get(*store_, "e")->episode().reward(), 0.75);
    EXPECT_EQ(Get(*store_, "e")->episode().reward_number(), 3);
    EXPECT_TRUE(Get(*store_, "e")->episode().signals().empty());
    Reopen();
  }
  ASSERT_TRUE(post(5, 0.75).ok()) << "it says nothing new, and is acknowledged";
  EXPECT_FALSE(post(4, 0.5).ok());
  EXPECT_EQ(Get(*store_, "e")->episode().reward_number(), 5);
  EXPECT_EQ(post(-1, 1).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(store_->StoreEnd(End("e", v1::EPISODE_FINISHED, 0.75)).ok());
  EXPECT_TRUE(post(6, 0.75).ok());
  EXPECT_FALSE(post(7, 0.5).ok());
  EXPECT_TRUE(store_->StoreEpisode(Open("e", 0, 0)).ok()) << "a repeated opening does not look at it";
}

TEST_P(StoreTest, TrimDeletesTheGroupsThatTheCheckpointCovers) {
  const auto shared = Prompt({100, 101});
  const auto add = [&](const std::string& id, int64_t group, v1::EpisodePurpose purpose = v1::PURPOSE_TRAIN) {
    ASSERT_TRUE(store_->StoreEpisode(Open(id, group, 0, 0, purpose)).ok());
    const int32_t own = static_cast<int32_t>(base::Checksum64(id) % 1000);
    ASSERT_TRUE(store_->AppendCall(Append(id, 0, {shared, Prompt({own})}, {Sampled({own})})).ok());
    ASSERT_TRUE(store_->AppendCall(Append(id, 1, {shared, Prompt({own}), Sampled({own})}, {Sampled({own, 1})})).ok());
    ASSERT_TRUE(store_->StoreEnd(End(id)).ok());
  };
  for (int64_t group = 0; group < 8; ++group) add("g" + std::to_string(group), group);
  ASSERT_TRUE(store_->StoreEpisode(Open("g0-again", 0, 0, 1)).ok());
  add("eval", 0, v1::PURPOSE_EVAL);
  // Step 0 trained groups 0 and 2, step 1 group 5, step 2 group 1. Groups 3 and 7 are closed, 4 and 6 open.
  ASSERT_TRUE(store_->AppendJournal(BatchRecord(0, {2, 0})).ok());
  ASSERT_TRUE(store_->AppendJournal(ClosedRecord(3)).ok());
  ASSERT_TRUE(store_->AppendJournal(BatchRecord(1, {5})).ok());
  ASSERT_TRUE(store_->AppendJournal(ClosedRecord(7)).ok());
  ASSERT_TRUE(store_->AppendJournal(BatchRecord(2, {1})).ok());
  EXPECT_EQ(TrimBelow(*store_, 0), 0);
  EXPECT_EQ(TrimBelow(*store_, 2), 5);  // g0 twice, g2, g3, g5
  EXPECT_EQ(TrimBelow(*store_, 2), 0);
  for (int round = 0; round < 2; ++round) {
    for (const char* kept : {"g1", "g4", "g6", "g7", "eval"}) {
      const auto tree = Get(*store_, kept);
      ASSERT_TRUE(tree.ok()) << tree.status();
      EXPECT_EQ(tree->calls_size(), 2);
      EXPECT_EQ(tree->segments_size(), 4);
    }
    for (const char* gone : {"g0", "g0-again", "g2", "g3", "g5"}) {
      EXPECT_EQ(Get(*store_, gone).status().code(), absl::StatusCode::kNotFound);
    }
    EXPECT_EQ(GetGroup(*store_, 0).status().code(), absl::StatusCode::kNotFound);
    const auto counts = Counts();
    EXPECT_EQ(counts.episodes(), 5);
    EXPECT_EQ(counts.calls(), 10);
    EXPECT_EQ(counts.segments(), 5 * 4);
    EXPECT_EQ(counts.segment_tokens(), 5 * (2 + 4));
    EXPECT_EQ(counts.recorded_tokens(), 5 * ((2 + 1 + 1) + (2 + 1 + 1 + 2)));
    EXPECT_EQ(counts.journal_end(), 5);
    Reopen();
  }
  // A group's segments went with its last episode, and can come back.
  ASSERT_TRUE(store_->StoreEpisode(Open("new", 20, 0)).ok());
  const int32_t own = static_cast<int32_t>(base::Checksum64("g2") % 1000);
  auto bare = Append("new", 0, {shared, Prompt({own})}, {});
  bare.clear_segments();
  EXPECT_EQ(std::string(store_->AppendCall(bare).GetPayload(kMissingSegments).value()),
            base::Hex(bare.call().context_keys(0)) + "," + base::Hex(bare.call().context_keys(1)));
  EXPECT_TRUE(store_->AppendCall(Append("new", 0, {shared, Prompt({own})}, {})).ok());
}

TEST_P(StoreTest, SegmentsBelongToTheirGroup) {
  const auto shared = Prompt({100, 101});
  const auto open = [&](const std::string& id, int64_t group, int sample, v1::EpisodePurpose purpose) {
    ASSERT_TRUE(store_->StoreEpisode(Open(id, group, sample, 0, purpose)).ok());
  };
  open("first", 0, 0, v1::PURPOSE_TRAIN);
  open("sibling", 0, 1, v1::PURPOSE_TRAIN);
  open("other group", 1, 0, v1::PURPOSE_TRAIN);
  open("evaluated", 0, 0, v1::PURPOSE_EVAL);
  open("served", 0, 0, v1::PURPOSE_SERVE);
  open("served too", 0, 0, v1::PURPOSE_SERVE);
  ASSERT_TRUE(store_->AppendCall(Append("first", 0, {shared}, {})).ok());
  const auto send_key_alone = [&](const std::string& id, int sequence) {
    auto request = Append(id, sequence, {shared}, {});
    request.clear_segments();
    return store_->AppendCall(request);
  };
  EXPECT_TRUE(send_key_alone("sibling", 0).ok());
  EXPECT_EQ(Counts().segments(), 1);
  for (const char* id : {"other group", "evaluated", "served", "served too"}) {
    EXPECT_EQ(std::string(send_key_alone(id, 0).GetPayload(kMissingSegments).value()),
              base::Hex(tree::SegmentKey(shared)));
    ASSERT_TRUE(store_->AppendCall(Append(id, 0, {shared}, {})).ok());
    EXPECT_TRUE(send_key_alone(id, 1).ok());
  }
  EXPECT_EQ(Counts().segments(), 5);
  EXPECT_EQ(Counts().segment_tokens(), 5 * 2);
  v1::TrimRequest trim;
  trim.add_group_ids(0);
  EXPECT_EQ(store_->Trim(trim)->episodes_deleted(), 2);
  EXPECT_EQ(Counts().segments(), 4);
  for (const char* id : {"other group", "evaluated", "served", "served too"}) {
    EXPECT_EQ(Get(*store_, id)->segments_size(), 1) << id;
  }
}

TEST_P(StoreTest, ATrimLeavesNoRecordOfItsGroups) {
  for (const char* id : {"ended", "open"}) {
    ASSERT_TRUE(store_->StoreEpisode(Open(id, 0, id[0] == 'o')).ok());
    ASSERT_TRUE(store_->AppendCall(Append(id, 0, {Prompt({1})}, {Sampled({2})})).ok());
    ASSERT_TRUE(store_->AppendCall(Append(id, 1, {Prompt({1}), Sampled({2})}, {Sampled({3})})).ok());
    ASSERT_TRUE(store_->StoreReward(Reward(id, 0.5, {{std::string(id) + "/0", 1}})).ok());
  }
  ASSERT_TRUE(store_->StoreEnd(End("ended")).ok());
  v1::TrimRequest trim;
  trim.add_group_ids(0);
  EXPECT_EQ(store_->Trim(trim)->episodes_deleted(), 2);
  EXPECT_EQ(Counts().SerializeAsString(), v1::PoolStatusResponse().SerializeAsString());
  store_.reset();
  auto database = Records();
  for (const Family family : {kEpisodes, kOrder, kCalls, kCallIds, kSegments, kSegmentInfos}) {
    int left = 0;
    ASSERT_TRUE(database->Read()->Scan(family, "", "", [&](auto, auto) { return ++left > 0; }).ok());
    EXPECT_EQ(left, 0) << "family " << family;
  }
}

TEST_P(StoreTest, ManyThreadsReadTheirOwnWrites) {
  constexpr int kThreads = 8, kCalls = 60;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  std::vector<std::vector<int64_t>> indexes(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::string id = "e" + std::to_string(t);
      failures += !store_->StoreEpisode(Open(id, t / 4, t % 4)).ok();
      std::vector<v1::Segment> context{Prompt({1, 2, 3})};
      for (int i = 0; i < kCalls; ++i) {
        const auto sampled = Sampled({t, i});
        failures += !store_->AppendCall(Append(id, i, context, {sampled})).ok();
        failures += Get(*store_, id)->calls_size() != i + 1;  // a thread reads its own writes
        context.push_back(sampled);
        const auto index = store_->AppendJournal(BatchRecord(t * kCalls + i, {t, i}));
        if (index.ok()) indexes[t].push_back(*index);
      }
      failures += !store_->StoreEnd(End(id)).ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  std::set<int64_t> all;
  for (const auto& mine : indexes) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), static_cast<size_t>(kThreads * kCalls));
  EXPECT_EQ(*all.rbegin(), kThreads * kCalls - 1);
  Reopen();
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(Get(*store_, "e" + std::to_string(t))->calls_size(), kCalls);
  EXPECT_EQ(Counts().segments(), 2 + kThreads * kCalls);  // a prompt of each of two groups
}

TEST_P(StoreTest, OneOfManyConcurrentRivalsWins) {
  std::atomic<int> opened{0}, appended{0};
  ASSERT_TRUE(store_->StoreEpisode(Open("e", 1, 0)).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      opened += store_->StoreEpisode(Open("rival" + std::to_string(t), 0, 0)).ok();
      auto call = Append("e", 0, {Prompt({t})}, {});
      call.mutable_call()->set_call_id("c" + std::to_string(t));
      appended += store_->AppendCall(call).ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(appended, 1);
  EXPECT_EQ(Counts().episodes(), 2);
  EXPECT_EQ(Get(*store_, "e")->segments_size(), 1);
  EXPECT_EQ(Counts().segments(), 1);  // the losers left no prompt
}

TEST_P(StoreTest, ReadersSeeWholeTreesWhileGroupsAreTrimmed) {
  const auto shared = Prompt({1, 2});
  std::atomic<bool> done{false};
  std::atomic<int> torn{0};
  std::thread reader([&] {
    while (!done) {
      for (int64_t group = 0; group < 30; ++group) {
        const auto tree = GetGroup(*store_, group);
        if (tree.ok()) {
          for (const auto& episode : tree->episodes()) {
            torn += episode.calls_size() > 0 && episode.segments_size() != 2;
          }
        } else if (!absl::IsNotFound(tree.status())) {
          ++torn;
        }
      }
    }
  });
  for (int64_t group = 0; group < 30; ++group) {
    const std::string id = std::to_string(group);
    ASSERT_TRUE(store_->StoreEpisode(Open(id, group, 0)).ok());
    ASSERT_TRUE(store_->AppendCall(Append(id, 0, {shared}, {Sampled({static_cast<int32_t>(group)})})).ok());
    ASSERT_TRUE(store_->StoreEnd(End(id)).ok());
    ASSERT_TRUE(store_->AppendJournal(BatchRecord(group, {group})).ok());
    EXPECT_EQ(TrimBelow(*store_, group), group == 0 ? 0 : 1);
  }
  done = true;
  reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(Counts().segments(), 2);
}

TEST_P(StoreTest, HoldsLongTrees) {
  ASSERT_TRUE(store_->StoreEpisode(Open("long", 0, 0)).ok());
  std::vector<int32_t> ids(200000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % 150000);
  const auto call = Append("long", 0, {Prompt(ids)}, {Sampled(ids)});
  ASSERT_TRUE(store_->AppendCall(call).ok());
  Reopen();
  const auto tree = Get(*store_, "long").value();
  EXPECT_EQ(tree.segments().at(base::Hex(call.call().sampled_keys(0))).SerializeAsString(),
            call.segments(1).SerializeAsString());
  EXPECT_EQ(Counts().recorded_tokens(), 400000);
  auto options = Options();
  options.max_call_bytes = 1 << 20;
  store_.reset();
  store_ = Store::Open(options).value();
  const auto rejected = store_->AppendCall(Append("long", 1, {Prompt(ids)}, {Sampled(ids)}));
  EXPECT_EQ(rejected.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(rejected), HasSubstr("max_call_bytes"));
}

class StoreOnFiles : public ::testing::Test {
 protected:
  testing::TempDir dir_;
  std::unique_ptr<Store> store_ = Store::Open(testing::QuickOptions(dir_.path())).value();
};

TEST_F(StoreOnFiles, ASecondProcessIsRejected) {
  const auto second = Store::Open(testing::QuickOptions(dir_.path()));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(second.status()), HasSubstr("open in another process"));
}

TEST_F(StoreOnFiles, OpenFilesAreBounded) {
  std::string options;
  for (const auto& file : std::filesystem::directory_iterator(dir_.path())) {
    if (!file.path().filename().string().starts_with("OPTIONS-")) continue;
    std::ifstream stream(file.path());
    options.assign(std::istreambuf_iterator<char>(stream), {});
  }
  EXPECT_THAT(options, ::testing::HasSubstr("max_open_files=512\n"));
}

TEST_F(StoreOnFiles, AnotherSchemaOrLayoutIsRejectedNamingBoth) {
  auto options = testing::QuickOptions(dir_.path());
  store_.reset();
  options.shards = 2;
  const auto layout = Store::Open(options, 1).status();
  EXPECT_EQ(layout.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(layout), HasSubstr("shard 0 of 1"));
  EXPECT_THAT(Text(layout), HasSubstr("shard 1 of 2"));
  const auto edit = [&](const std::string& key, const std::string& value) {
    rocksdb::Options rocks;
    std::vector<std::string> names;
    ASSERT_TRUE(rocksdb::DB::ListColumnFamilies(rocks, dir_.path(), &names).ok());
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const auto& name : names) families.emplace_back(name, rocks);
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* db = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(rocks, dir_.path(), families, &handles, &db).ok());
    if (value.empty()) {
      ASSERT_TRUE(db->CreateColumnFamily(rocks, key, &handles.emplace_back()).ok());
    } else {
      ASSERT_TRUE(db->Put({}, key, value).ok());
    }
    for (auto* handle : handles) db->DestroyColumnFamilyHandle(handle);
    delete db;
  };
  const auto expect_rejected = [&](const std::string& named) {
    const absl::Status status = Store::Open(testing::QuickOptions(dir_.path())).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Text(status), HasSubstr("'" + named + "'"));
    EXPECT_THAT(Text(status), HasSubstr("'ingot datapool 4'"));
    EXPECT_THAT(Text(status), HasSubstr("open it with the version of ingot that created it, or choose another path"));
  };
  for (const char* schema : {"ingot datapool 1", "ingot datapool 3", "ingot datapool 9"}) {
    edit("schema", schema);
    expect_rejected(schema);
  }
  // A pool of another schema may have a table that this one does not know.
  edit("refs", "");
  expect_rejected("ingot datapool 9");
  edit("schema", "ingot datapool 4");
  expect_rejected("refs");
}

TEST(Store, RejectsADatabaseThatIsNotAPool) {
  testing::TempDir dir;
  rocksdb::Options rocks;
  rocks.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(rocks, dir.path(), &db).ok());
  ASSERT_TRUE(db->Put({}, "someone's", "data").ok());
  delete db;
  const auto rejected = Store::Open(testing::QuickOptions(dir.path())).status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(rejected), HasSubstr("not a pool"));
}

}  // namespace
}  // namespace ingot::datapool
