// Trajectories as JSON for a browser: tokens with what the engine recorded, and hostile text that stays text.
#include "view/json/trajectory_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/hostile_text.h"
#include "base/printable.h"
#include "cpu_time.h"
#include "datapool/make_pool.h"
#include "view/safe_text.h"

namespace ingot::view::trajectory_json_test {
namespace {

namespace pools = datapool::testing;

std::shared_ptr<const text::Tokenizer> Bytes() {
  static const auto tokenizer = text::MakeByteTokenizer({"<|im_end|>"});
  return tokenizer;
}
std::vector<int32_t> Ids(const std::string& text) { return Bytes()->Encode(text, true); }

// An episode of two calls: the second continues the first on its sampled ids.
class TrajectoryJsonTest : public ::testing::Test {
 protected:
  TrajectoryJsonTest() : pool_(datapool::OpenPool(pools::QuickOptions(dir_.path())).value()) {}

  v1::EpisodeTree Tree(const std::string& prompt, const std::string& answer, const std::string& delivered = "") {
    EXPECT_TRUE(pool_->StoreEpisode(pools::Open("e", 0, 0)).ok());
    const v1::Segment asked = pools::Prompt(Ids(prompt)), said = pools::Sampled(Ids(answer), 3);
    v1::AppendCallRequest first = pools::Append("e", 0, {asked}, {said});
    first.mutable_call()->set_delivered_json(delivered);
    EXPECT_TRUE(pool_->AppendCall(first).ok());
    v1::AppendCallRequest second =
        pools::Append("e", 1, {asked, said, pools::Prompt(Ids("?"))}, {pools::Sampled(Ids("no"), 5)});
    second.mutable_call()->set_fork_cause("edited");
    EXPECT_TRUE(pool_->AppendCall(second).ok());
    return pools::Get(*pool_, "e").value();
  }

  pools::TempDir dir_;
  std::unique_ptr<datapool::Client> pool_;
};

TEST_F(TrajectoryJsonTest, TheTokensOfACallAreItsWholePathWithLogProbsAndVersions) {
  const std::string json = CallTokensJson(Tree("ab", "cd"), 1, Bytes()).value();
  EXPECT_EQ(json,
            "{\"text\":[\"a\",\"b\",\"c\",\"d\",\"?\",\"n\",\"o\"],\"id\":[97,98,99,100,63,110,111],"
            "\"runs\":[{\"count\":2,\"sampled\":false,\"call\":-1},{\"count\":2,\"sampled\":true,\"call\":-1},"
            "{\"count\":1,\"sampled\":false,\"call\":-1},{\"count\":2,\"sampled\":true,\"call\":1}],"
            "\"logprob\":[-0.5,-1.5,-0.5,-1.5],\"versions\":[[3,2,0],[5,2,0]]}");
}

TEST_F(TrajectoryJsonTest, RecordedAlternativesComeWithTheirTexts) {
  v1::EpisodeTree tree = Tree("ab", "cd");
  v1::Segment& said = tree.mutable_segments()->at(base::Hex(tree.calls(1).sampled_keys(0)));
  for (const int32_t id : {110, 111, 111, 60}) said.add_alternative_ids(id), said.add_alternative_logprobs(-0.25f);
  const std::string json = CallTokensJson(tree, 1, Bytes()).value();
  EXPECT_THAT(json, ::testing::HasSubstr("{\"count\":2,\"sampled\":true,\"call\":-1},"
                                         "{\"count\":1,\"sampled\":false,\"call\":-1},"
                                         "{\"count\":2,\"sampled\":true,\"call\":1,\"alternatives\":2}]"));
  EXPECT_THAT(json, ::testing::EndsWith(",\"alternative\":[110,111,111,60],"
                                        "\"alternative_logprob\":[-0.25,-0.25,-0.25,-0.25],"
                                        "\"alternative_text\":{\"60\":\"<\",\"110\":\"n\",\"111\":\"o\"}}"));
  said.mutable_alternative_ids()->RemoveLast();  // damaged
  EXPECT_THAT(CallTokensJson(tree, 1, Bytes()).value(), ::testing::Not(::testing::HasSubstr("alternative")));
}

TEST_F(TrajectoryJsonTest, AnEpisodeHasItsCallsItsTreeAndItsAdvantages) {
  const v1::EpisodeTree tree = Tree("ab", "cd", R"({"role":"assistant","content":"cd"})");
  const base::json::object json = EpisodeTreeJson(tree, *Bytes(), {0.5, -0.5}, 100).value();
  const base::json::array& calls = json.at("calls").as_array();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[1].at("fork_cause"), "edited");
  EXPECT_EQ(calls[1].at("origin"), "");
  EXPECT_FALSE(calls[1].at("after_trunk").as_bool());
  EXPECT_EQ(calls[1].at("advantage").as_double(), -0.5);
  EXPECT_EQ(calls[0].at("delivered").at("content"), "cd");
  EXPECT_EQ(json.at("sampled_tokens").to_number<int>(), 4);
  EXPECT_EQ(json.at("tree_tokens").to_number<int>(), 7);
  const base::json::array& nodes = json.at("nodes").as_array();
  EXPECT_EQ(nodes.front().at("text"), "ab");
  EXPECT_EQ(nodes.back().at("text"), "no");
}

TEST_F(TrajectoryJsonTest, ACallSaysHowItsBranchBegan) {
  v1::EpisodeTree tree = Tree("ab", "cd", R"({"content": "what was said so far"})");
  v1::Call& second = *tree.mutable_calls(1);
  second.set_fork_cause("new_conversation");
  second.set_parent_call_id("of-a-trunk");
  const v1::Segment quote = pools::Prompt(Ids("summary: what was said so far"));
  (*tree.mutable_segments())["71"] = quote;  // "q"
  second.clear_continued_segments();
  second.clear_context_keys();
  second.add_context_keys("q");
  tree.mutable_episode()->mutable_fork()->set_episode_id("trunk");
  const base::json::object json = EpisodeTreeJson(tree, *Bytes(), {}, 100).value();
  EXPECT_EQ(json.at("trunk"), "trunk");
  EXPECT_EQ(json.at("calls").as_array()[1].at("origin"), "summary");
  EXPECT_EQ(json.at("calls").as_array()[1].at("origin_call").to_number<int>(), 0);
  EXPECT_TRUE(json.at("calls").as_array()[1].at("after_trunk").as_bool());
  EXPECT_FALSE(json.at("calls").as_array()[0].at("after_trunk").as_bool());
}

TEST_F(TrajectoryJsonTest, ACallHasItsRoleAndItsReward) {
  v1::EpisodeTree tree = Tree("ab", "cd");
  tree.mutable_calls(0)->set_role("white");
  (*tree.mutable_episode()->mutable_call_rewards())[tree.calls(0).call_id()] = -1;
  const base::json::object json = EpisodeTreeJson(tree, *Bytes(), {}, 100).value();
  const base::json::array& calls = json.at("calls").as_array();
  EXPECT_EQ(calls[0].at("role"), "white");
  EXPECT_EQ(calls[0].at("reward").as_double(), -1);
  EXPECT_EQ(calls[1].at("role"), "");
  EXPECT_EQ(json.at("reward").as_double(), -1);
}

TEST_F(TrajectoryJsonTest, ATokenThatEndsWithinACharacterLeavesItToTheNext) {
  const std::string json = CallTokensJson(Tree("a", "\xC3\xA9"), 1, Bytes()).value();
  EXPECT_NE(json.find("[\"a\",\"\",\"\xC3\xA9\",\"?\""), std::string::npos) << json;
}

TEST_F(TrajectoryJsonTest, HostileTextStaysTextInEveryField) {
  std::vector<std::string> texts = base::HostileTexts();
  texts.push_back("<script>alert(1)</script><img src=x onerror=alert(1)>");
  for (const std::string& text : texts) {
    const std::string safe = SafeText(text);
    for (size_t begin = 0, end; begin <= safe.size(); begin = end + 1) {  // line ends and tabs alone may stay
      end = std::min(safe.find_first_of("\n\t", begin), safe.size());
      ASSERT_TRUE(base::IsPrintable(safe.substr(begin, end - begin))) << safe;
    }
  }
  const std::string evil = "\x1b[31m\xE2\x80\xAE<script>";
  const base::json::object message{{"content", evil}, {evil, base::json::array{evil}}};
  v1::EpisodeTree tree = Tree("a", evil, base::PrintJson(message));
  v1::Episode& episode = *tree.mutable_episode();
  for (std::string* field : {episode.mutable_detail(), episode.mutable_cause(), episode.mutable_scaffold(),
                             episode.mutable_task()->mutable_task_id(), episode.mutable_task()->mutable_domain(),
                             episode.mutable_task()->mutable_payload_json()}) {
    *field = evil;
  }
  (*episode.mutable_signals())[evil] = 1;
  (*episode.mutable_facts())[evil] = evil;
  v1::TermValue& term = *episode.mutable_grade()->add_terms();
  term.set_term(evil);
  term.set_detail(evil);
  for (v1::Call& call : *tree.mutable_calls()) {
    call.set_branch(evil);
    call.set_role(evil);
    call.set_model(evil);
    call.set_fork_cause(evil);
  }
  const std::string json =
      base::PrintJson(EpisodeTreeJson(tree, *Bytes(), {}, 100).value()) + CallTokensJson(tree, 1, Bytes()).value();
  for (const char* never : {"\x1b", "\xE2\x80\xAE", "\\u001b", "\\u202e"}) {
    size_t at = json.find(never);
    // An escape of JSON is two characters, a backslash in front of another one stays visible text.
    while (at != std::string::npos && at > 0 && json[at - 1] == '\\') at = json.find(never, at + 1);
    EXPECT_EQ(at, std::string::npos) << never;
  }
}

TEST_F(TrajectoryJsonTest, FindsTextInTokensAndMessagesOfEitherCase) {
  const v1::EpisodeTree tree = Tree("The Question", "an answer", R"({"content":"delivered"})");
  for (const char* found : {"question", "ANSWER", "Delivered", "no"}) EXPECT_TRUE(ContainsText(tree, *Bytes(), found));
  EXPECT_FALSE(ContainsText(tree, *Bytes(), "nothing"));
}

TEST_F(TrajectoryJsonTest, ACallOf200000TokensIsReadyInUnderASecond) {
  const v1::EpisodeTree tree = Tree(std::string(100'000, 'a'), std::string(100'000, 'b'));
  std::string json;
  EXPECT_LT(CpuSeconds([&] { json = CallTokensJson(tree, 1, Bytes()).value(); }), 1.0 * kSlowdown);
  EXPECT_GT(json.size(), 1'000'000u);
}

}  // namespace
}  // namespace ingot::view::trajectory_json_test
