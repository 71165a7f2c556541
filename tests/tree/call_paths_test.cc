#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "tree/contexts.h"
#include "tree/makers.h"

namespace ingot::tree {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CallPathsTest, APathHasTheLogProbsAndVersionsOfItsSampledIds) {
  v1::EpisodeTree tree;
  v1::Segment chunk = Sampled({4, 5, 6}, 7, -0.25f);
  chunk.mutable_versions(0)->set_count(1);
  v1::VersionRun* run = chunk.add_versions();
  run->set_version(8);
  run->set_count(2);
  run->set_kv_mixed(true);
  AddCall(tree, {Prompt({1, 2}), Prompt({3})}, {chunk, Sampled({9}, 8)});
  AddCall(tree, {Prompt({1, 2}), Prompt({3}), chunk, Sampled({9}, 8), Prompt({10})}, {Sampled({11}, 9)})
      .mutable_sampling()
      ->set_temperature(0.7f);
  const auto calls = CallPathsOf(tree, 3, 5);
  ASSERT_TRUE(calls.ok()) << calls.status();
  const CallPath& first = (*calls)[0];
  EXPECT_EQ(first.call_id, "call-0");
  EXPECT_EQ(first.episode, 3);
  EXPECT_EQ(first.group, 5);
  EXPECT_THAT(first.context.Tokens(), ElementsAre(1, 2, 3));
  EXPECT_THAT(first.sampled, ElementsAre(4, 5, 6, 9));
  EXPECT_THAT(first.logprobs, ElementsAre(-0.25f, -0.25f, -0.25f, -0.5f));
  EXPECT_THAT(first.versions, ElementsAre(7, 8, 8, 8));
  EXPECT_THAT(first.kv_mixed, ElementsAre(0, 1, 1, 0));
  const CallPath& second = (*calls)[1];
  EXPECT_FLOAT_EQ(second.temperature, 0.7f);
  EXPECT_THAT(second.Tokens(), ElementsAre(1, 2, 3, 4, 5, 6, 9, 10, 11));
  EXPECT_THAT(second.logprobs, ElementsAre(-0.5f));
}

TEST(CallPathsTest, PlaceholdersOfSegmentsAreRunsOfTheirContext) {
  v1::EpisodeTree tree;
  AddCall(tree, {WithImage({1, 9, 9, 2, 9}, 1, 2, "image-01"), Prompt({3})}, {Sampled({4}, 7)});
  const auto calls = CallPathsOf(tree, 0, 0);
  ASSERT_TRUE(calls.ok()) << calls.status();
  const TokenPath& context = (*calls)[0].context;
  EXPECT_THAT(context.Tokens(), ElementsAre(1, 9, 9, 2, 9, 3));
  std::vector<std::string> contents;
  for (const TokenRun& run : context.Runs()) contents.emplace_back(run.content);
  EXPECT_THAT(contents, ElementsAre("", "image-01", "", ""));
}

TEST(CallPathsTest, PlaceholdersThatAreNotSoundAreNamed) {
  const auto fault = [](const v1::Segment& prompt, const v1::Segment& sampled) {
    v1::EpisodeTree tree;
    AddCall(tree, {prompt}, {sampled});
    return CallPathsOf(tree, 0, 0).status();
  };
  const absl::Status beyond = fault(WithImage({1, 9}, 1, 2, "image-01"), Sampled({4}, 7));
  EXPECT_EQ(beyond.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(beyond.message()), HasSubstr("placeholders[0] covers ids 1 to 2 of 2"));
  v1::Segment sampled = Sampled({4}, 7);
  *sampled.add_placeholders() = WithImage({1}, 0, 1, "image-01").placeholders(0);
  EXPECT_EQ(fault(Prompt({1}), sampled).code(), absl::StatusCode::kDataLoss);
}

TEST(CallPathsTest, RoutesCoverTheSampledIds) {
  v1::Segment first = Sampled({4, 5}, 7), second = Sampled({6}, 7);
  first.set_routes(std::string("\1\0\2\0\3\0\4\1", 8));
  second.set_routes(std::string("\5\0\6\0", 4));
  v1::EpisodeTree tree;
  AddCall(tree, {Prompt({1})}, {first, second});
  EXPECT_THAT((*CallPathsOf(tree, 0, 0))[0].routes, ElementsAre(1, 2, 3, 260, 5, 6));
  for (const std::string& wrong : {std::string(), std::string(3, '\0'), std::string(2, '\0')}) {
    second.set_routes(wrong);
    second.set_logprobs(0, -static_cast<float>(wrong.size()));  // a segment of its own
    v1::EpisodeTree bad;
    AddCall(bad, {Prompt({1})}, {first, second});
    EXPECT_EQ(CallPathsOf(bad, 0, 0).status().code(), absl::StatusCode::kDataLoss) << wrong.size();
  }
}

TEST(CallPathsTest, ContextsWithEqualPrefixesShareThem) {
  v1::EpisodeTree tree;
  const v1::Segment system = Prompt({1, 2}), answer = Sampled({3}, 0), other = Sampled({4}, 0);
  AddCall(tree, {system}, {answer});
  AddCall(tree, {system}, {other});
  AddCall(tree, {system, answer, Prompt({5})}, {Sampled({6}, 0)});
  AddCall(tree, {Prompt({7}), system}, {Sampled({6}, 0)});
  const auto calls = *CallPathsOf(tree, 0, 0);
  EXPECT_EQ(calls[0].context.key(), calls[1].context.key());
  const auto runs = calls[2].context.Runs();
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].ids.data(), calls[0].context.Runs()[0].ids.data()) << "the same ids, not equal ones";
  EXPECT_THAT(calls[3].Tokens(), ElementsAre(7, 1, 2, 6));
}

// A random episode in both forms: each call names its whole prompt, or only its new segments behind a parent call.
TEST(CallPathsTest, BothFormsOfARecordGiveEqualPaths) {
  std::mt19937 rng(7);
  for (int round = 0; round < 50; ++round) {
    v1::EpisodeTree whole;
    int32_t next = 0;
    for (int i = 0; i < 20; ++i) {
      std::vector<v1::Segment> fresh = {Prompt({next++})};
      if (rng() % 3 == 0) fresh.push_back(Prompt({next++, next++}));
      std::vector<v1::Segment> sampled;
      for (uint32_t k = rng() % 3; k > 0; --k) sampled.push_back(Sampled({next++}, 1));
      AddCall(whole, fresh, sampled);
    }
    v1::EpisodeTree brief = whole;
    for (int i = 1; i < whole.calls_size(); ++i) {
      if (rng() % 5 == 0) continue;
      const v1::Call& parent = whole.calls(static_cast<int>(rng() % i));
      v1::Call& named = *whole.mutable_calls(i);
      const int continued = parent.sampled_keys_size() - (parent.sampled_keys_size() > 0 && rng() % 4 == 0 ? 1 : 0);
      const std::vector<std::string> own(named.context_keys().begin(), named.context_keys().end());
      *named.mutable_context_keys() = parent.context_keys();
      for (int k = 0; k < continued; ++k) named.add_context_keys(parent.sampled_keys(k));
      for (const std::string& key : own) named.add_context_keys(key);
      brief.mutable_calls(i)->set_parent_call_id(parent.call_id());
      brief.mutable_calls(i)->set_continued_segments(continued);
    }
    if (round % 2 == 1) {  // the order of calls means nothing
      std::reverse(whole.mutable_calls()->begin(), whole.mutable_calls()->end());
      std::reverse(brief.mutable_calls()->begin(), brief.mutable_calls()->end());
    }
    const auto expected = CallPathsOf(whole, 0, 0), found = CallPathsOf(brief, 0, 0);
    ASSERT_TRUE(found.ok()) << found.status();
    const Contexts contexts(brief.calls());
    for (size_t i = 0; i < expected->size(); ++i) {
      EXPECT_EQ((*found)[i].Tokens(), (*expected)[i].Tokens());
      EXPECT_EQ(CallPathOf(brief, static_cast<int>(i))->Tokens(), (*expected)[i].Tokens());
      const auto keys = contexts.KeysOf(brief.calls(static_cast<int>(i)));
      ASSERT_TRUE(keys.ok()) << keys.status();
      EXPECT_THAT(*keys, testing::ElementsAreArray(whole.calls(static_cast<int>(i)).context_keys()));
    }
  }
}

TEST(CallPathsTest, AMissingParentCallIsAnError) {
  const auto rejected = [](const std::function<void(v1::Call&)>& damage, const std::string& why) {
    v1::EpisodeTree tree;
    AddCall(tree, {Prompt({1})}, {Sampled({2}, 0)});
    v1::Call& second = AddCall(tree, {Prompt({3})}, {});
    second.set_parent_call_id("call-0");
    second.set_continued_segments(1);
    EXPECT_TRUE(CallPathsOf(tree, 0, 0).ok());
    damage(second);
    EXPECT_EQ(CallPathsOf(tree, 0, 0).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(CallPathsOf(tree, 0, 0).status().message()), HasSubstr(why));
    EXPECT_EQ(Contexts(tree.calls()).KeysOf(second).status().code(), absl::StatusCode::kDataLoss);
  };
  rejected([](v1::Call& call) { call.set_parent_call_id("another"); }, "continues call another, which is missing");
  rejected([](v1::Call& call) { call.set_continued_segments(2); }, "continues 2 of the 1 segments");
  rejected([](v1::Call& call) { call.set_continued_segments(-1); }, "continues -1 of the 1 segments");
  rejected([](v1::Call& call) { call.set_parent_call_id(call.call_id()), call.set_continued_segments(0); },
           "continues itself");
}

TEST(CallPathsTest, DamageNamesTheCallAndTheSegment) {
  using Damage = std::function<void(v1::Segment&)>;
  const std::vector<std::pair<Damage, std::string>> cases = {
      {[](auto& s) { s.add_logprobs(0); }, "3 log-probs"},
      {[](auto& s) { s.mutable_versions(0)->set_count(1); }, "cover 1 of 2"},
      {[](auto& s) { s.mutable_versions(0)->set_count(3); }, "do not cover"},
      {[](auto& s) { s.mutable_versions(0)->set_count(-1); }, "do not cover"},
      {[](auto& s) { s.clear_versions(); }, "cover 0 of 2"},
      {[](auto& s) { s.set_source(v1::SOURCE_PROMPT); }, "sampled"},
  };
  for (const auto& [damage, cause] : cases) {
    v1::EpisodeTree tree;
    const std::string key = base::Hex(AddCall(tree, {Prompt({1})}, {Sampled({2, 3}, 1)}).sampled_keys(0));
    damage((*tree.mutable_segments())[key]);
    const auto calls = CallPathsOf(tree, 0, 0);
    EXPECT_EQ(calls.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(CallPathOf(tree, 0).status(), calls.status());
    EXPECT_THAT(std::string(calls.status().message()), AllOf(HasSubstr("call-0"), HasSubstr(key), HasSubstr(cause)));
  }
  v1::EpisodeTree tree;
  tree.mutable_segments()->erase(base::Hex(AddCall(tree, {Prompt({1})}, {}).context_keys(0)));
  EXPECT_EQ(CallPathsOf(tree, 0, 0).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace ingot::tree
