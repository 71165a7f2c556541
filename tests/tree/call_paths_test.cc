#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tree/makers.h"

namespace ingot::tree {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CallPathsTest, PathsComeWithTheAnnotationsOfWhatTheCallSampled) {
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

TEST(CallPathsTest, ContextsThatBeginAlikeShareTheirBeginning) {
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
  EXPECT_EQ(runs[0].data(), calls[0].context.Runs()[0].data()) << "the same ids, not equal ones";
  EXPECT_THAT(calls[3].Tokens(), ElementsAre(7, 1, 2, 6));
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
    EXPECT_THAT(std::string(calls.status().message()), AllOf(HasSubstr("call-0"), HasSubstr(key), HasSubstr(cause)));
  }
  v1::EpisodeTree tree;
  tree.mutable_segments()->erase(base::Hex(AddCall(tree, {Prompt({1})}, {}).context_keys(0)));
  EXPECT_EQ(CallPathsOf(tree, 0, 0).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace ingot::tree
