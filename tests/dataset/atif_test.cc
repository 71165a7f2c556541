#include "dataset/atif.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.h"
#include "text/chat/chat.h"
#include "tree/segment_key.h"

namespace ingot::dataset {
namespace {

using base::json::object;
using base::json::value;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Decode(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += absl::StrCat("<", id, ">");
  return text;
}

std::string Add(v1::EpisodeTree& tree, v1::Source source, const std::vector<int32_t>& ids) {
  v1::Segment segment;
  segment.set_source(source);
  segment.mutable_token_ids()->Add(ids.begin(), ids.end());
  if (source == v1::SOURCE_SAMPLED) {
    for (size_t i = 0; i < ids.size(); ++i) segment.add_logprobs(-0.5f);
    segment.add_versions()->set_count(static_cast<int32_t>(ids.size()));
  }
  const std::string key = tree::SegmentKey(segment);
  (*tree.mutable_segments())[base::Hex(key)] = segment;
  return key;
}

v1::Call& AddCall(v1::EpisodeTree& tree, const std::vector<int32_t>& prompt, const std::vector<int32_t>& sampled,
                  const std::string& branch = "") {
  v1::Call& call = *tree.add_calls();
  call.set_call_id("c" + std::to_string(tree.calls_size() - 1));
  call.set_sequence(tree.calls_size() - 1);
  call.set_model("m");
  call.set_branch(branch);
  call.mutable_sampling()->set_temperature(0.5);
  call.add_context_keys(Add(tree, v1::SOURCE_PROMPT, prompt));
  call.add_sampled_keys(Add(tree, v1::SOURCE_SAMPLED, sampled));
  return call;
}

v1::EpisodeTree Episode() {
  v1::EpisodeTree tree;
  tree.mutable_episode()->set_episode_id("e1");
  tree.mutable_episode()->mutable_task()->set_task_id("t1");
  tree.mutable_episode()->set_reward(0.75);
  (*tree.mutable_episode()->mutable_signals())["recall"] = 0.25;
  tree.mutable_episode()->set_scaffold("solver");
  AddCall(tree, {1, 2}, {3})
      .set_delivered_json(
          R"({"role":"assistant","content":"look","tool_calls":[{"id":"k","function":{"name":"f","arguments":"{\"a\":1}"}}]})");
  AddCall(tree, {1, 2, 3, 4}, {5, 6}).set_delivered_json(R"({"role":"assistant","content":"done"})");
  AddCall(tree, {7}, {8}, "helper");
  return tree;
}

TEST(AtifTest, AnEpisodeBecomesStepsWithIdsAndSubAgents) {
  const auto atif = ToAtif(Episode(), Decode);
  ASSERT_TRUE(atif.ok()) << atif.status();
  EXPECT_EQ(atif->at("schema_version"), "ATIF-v1.7");
  const auto& steps = atif->at("steps").as_array();
  ASSERT_EQ(steps.size(), 4);  // prompt, call, new prompt, call
  EXPECT_EQ(steps[0].as_object().at("message"), "<1><2>");
  EXPECT_EQ(steps[1].as_object().at("message"), "look");
  EXPECT_EQ(base::PrintJson(steps[1].at("tool_calls").at(0).at("arguments")), R"({"a":1})");
  EXPECT_EQ(steps[2].as_object().at("message"), "<4>");
  const value& metrics = steps[3].as_object().at("metrics");
  EXPECT_EQ(base::PrintJson(metrics.at("prompt_token_ids")), "[1,2,3,4]");
  EXPECT_EQ(base::PrintJson(metrics.at("completion_token_ids")), "[5,6]");
  EXPECT_EQ(base::PrintJson(metrics.at("logprobs")), "[-0.5,-0.5]");
  const auto& inner = atif->at("subagent_trajectories").as_array();
  ASSERT_EQ(inner.size(), 1);
  EXPECT_EQ(inner[0].as_object().at("trajectory_id"), "e1/helper");
  EXPECT_THAT(base::PrintJson(steps[3].at("observation")), HasSubstr("e1/helper"));
  EXPECT_EQ(atif->at("extra").at("outcome").to_number<double>(), 0.75);
}

class FromAtifTest : public testing::Test {
 protected:
  FromAtifTest()
      : format_(*text::MakeChatFormat("compact", text::MakeByteTokenizer({"<|im_start|>", "<|im_end|>", "<|endoftext|>",
                                                                          "<tool_call>", "</tool_call>"}))) {}
  const std::shared_ptr<const text::ChatFormat> format_;
};

TEST_F(FromAtifTest, IdsComeBackAsTheyWere) {
  const auto atif = ToAtif(Episode(), Decode);
  ASSERT_TRUE(atif.ok());
  const auto back = FromAtif(value(*atif), *format_);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->task_id, "t1");
  EXPECT_EQ(back->outcome, 0.75);
  ASSERT_EQ(back->calls.size(), 3);
  EXPECT_THAT(back->calls[1].path.context.Tokens(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(back->calls[1].path.sampled, ElementsAre(5, 6));
  EXPECT_THAT(back->calls[1].path.logprobs, ElementsAre(-0.5f, -0.5f));
  EXPECT_FALSE(back->calls[1].encoded);
  EXPECT_EQ(back->signals, (std::map<std::string, double>{{"recall", 0.25}}));
  EXPECT_EQ(back->calls[2].branch, "e1/helper");
}

TEST_F(FromAtifTest, TextIsEncodedAndSaysSo) {
  const auto json =
      *base::ParseJson(R"({"schema_version": "ATIF-v1.4", "agent": {"name": "a", "version": "1"}, "steps": [
    {"step_id": 1, "source": "user", "message": "hi"},
    {"step_id": 2, "source": "agent", "message": "hello"},
    {"step_id": 3, "source": "agent", "message": "x", "is_copied_context": true}]})");
  const auto read = FromAtif(json, *format_);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->calls.size(), 1) << "copied context is no call";
  EXPECT_TRUE(read->calls[0].encoded);
  EXPECT_FALSE(read->calls[0].path.sampled.empty());
  EXPECT_FALSE(read->has_outcome);
}

TEST_F(FromAtifTest, FaultsNameTheirStep) {
  const auto read = [&](const std::string& text) { return FromAtif(*base::ParseJson(text), *format_).status(); };
  EXPECT_THAT(std::string(read("{}").message()), HasSubstr("schema_version"));
  EXPECT_THAT(std::string(read(R"({"schema_version": "ATIF-v1.7", "steps": []})").message()), HasSubstr("no steps"));
  EXPECT_THAT(
      std::string(read(R"({"schema_version": "ATIF-v1.7", "steps": [{"source": "robot", "message": ""}]})").message()),
      HasSubstr("steps[0]"));
  EXPECT_THAT(std::string(read(R"({"schema_version": "ATIF-v1.7", "steps": [{"source": "user", "message": "x"},
    {"source": "agent", "message": "y", "metrics": {"prompt_token_ids": [-1], "completion_token_ids": [1]}}]})")
                              .message()),
              HasSubstr("which is not a token id"));
}

}  // namespace
}  // namespace ingot::dataset
