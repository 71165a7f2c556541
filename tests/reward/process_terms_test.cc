// Terms of single turns: malformed calls, failed calls, language mixing.
#include <gtest/gtest.h>

#include "reward/terms/language_mixing.h"
#include "reward/terms/scripts.h"
#include "term_maker.h"

namespace ingot::reward {
namespace {

// An episode of so many calls.
v1::EpisodeTree& Episode(v1::Group& group, int calls) {
  v1::EpisodeTree& tree = AddEpisode(group, 0);
  for (int i = 0; i < calls; ++i) AddCall(tree, 5);
  return tree;
}

TEST(MalformedCall, PaysAtItsOwnTurnByTheShareOfCalls) {
  v1::Group group;
  v1::EpisodeTree& tree = Episode(group, 4);
  tree.mutable_calls(2)->set_tool_call_malformed(true);
  AddCall(tree, 5).set_weights(v1::WEIGHTS_PINNED);  // a sub-agent's counts neither way
  tree.mutable_calls(4)->set_tool_call_malformed(true);
  const TermResult result = *ResultsOf(TermOf("malformed_call"), group)[0];
  EXPECT_EQ(result.value, 0);
  EXPECT_EQ(result.calls, (std::map<std::string, double>{{tree.calls(2).call_id(), -0.25}}));
}

TEST(FailedCall, IsNamedByTurnByCallOrByToolCall) {
  v1::Group group;
  v1::EpisodeTree& tree = Episode(group, 4);
  Deliver(*tree.mutable_calls(3), "", "", "call_7");
  SetFact(tree, "failed_calls", R"([0, "episode0-call1", "call_7"])");
  const TermResult result = *ResultsOf(TermOf("failed_call"), group)[0];
  EXPECT_EQ(result.calls,
            (std::map<std::string, double>{
                {tree.calls(0).call_id(), -0.25}, {tree.calls(1).call_id(), -0.25}, {tree.calls(3).call_id(), -0.25}}));
}

TEST(FailedCall, WithoutTheFactNothingFailedAndAWrongOneIsAnError) {
  v1::Group group;
  v1::EpisodeTree& tree = Episode(group, 1);
  EXPECT_EQ(ValuesOf(TermOf("failed_call"), group), std::vector<double>{0});
  SetFact(tree, "failed_calls", "[9]");
  EXPECT_NE(FaultOf(TermOf("failed_call"), group).find("refers to 9"), std::string::npos);
  SetFact(tree, "failed_calls", "{}");
  EXPECT_NE(FaultOf(TermOf("failed_call"), group).find("is not a list"), std::string::npos);
  SetFact(tree, "failed_calls", "[");
  EXPECT_NE(FaultOf(TermOf("failed_call"), group).find("fact 'failed_calls'"), std::string::npos);
}

TEST(Scripts, CodeFormulasAddressesAndJsonAreNoProse) {
  const std::string text =
      "前 ```py\nprint(x)\n``` `ls -l` $\\alpha + b$ \\(c\\) \\[d\\] $$e$$ https://host/path?q=1 "
      R"({"name": {"inner": ["a", 1]}} <b>后</b> \frac)";
  EXPECT_EQ(CountLetters(NaturalLanguage(text)), (LetterCounts{{"Han", 2}}));
  EXPECT_EQ(CountLetters(NaturalLanguage("``` never closed")), LetterCounts());
}

TEST(Scripts, AreCountedByLetter) {
  EXPECT_EQ(CountLetters("añb, 中文 Привет! 123 ꙮᚠ"),
            (LetterCounts{{"Latin", 3}, {"Han", 2}, {"Cyrillic", 7}, {"other", 1}}));
}

struct Sample {
  const char* text;
  const char* language;
  bool mixed;
};

TEST(Scripts, TellMixedTextsFromTermsAndNames) {
  const Sample samples[] = {
      {"The answer is 42 because the sum is even.", "en", false},
      {"The city of Beijing (北京) has sixteen districts, eight of which make up the old centre; the others are "
       "suburbs "
       "and counties that came to it later.",
       "en", false},
      {"The answer 是四十二 because 总和是偶数.", "en", true},
      {"Ответ is 42, потому что сумма чётная.", "en", true},
      {"The angle α equals β plus 30 degrees.", "en", false},
      {"答案是四十二，因为总和是偶数。", "zh", false},
      {"使用 Python 和 PyTorch 训练 Qwen 模型。", "zh", false},
      {"我们先 consider the following two cases 然后相加。", "zh", true},
      {"先に計算します。答えは四十二です。", "ja", false},
      {"この問題は, ответ сорок два です。", "ja", true},
      {"Модель GPT решает задачу.", "ru", false},
      {"Сначала 计算总和 затем ответ.", "ru", true},
      {"정답은 42입니다.", "ko", false},
      {"Use `变量` and ```\n打印(一)\n``` here.", "en", false},
  };
  for (const Sample& sample : samples) {
    EXPECT_EQ(ForeignShare(sample.text, ScriptsOf(sample.language)) > 0.02 + 1e-12, sample.mixed) << sample.text;
  }
}

TEST(LanguageMixing, PaysAtTheTurnThatMixes) {
  v1::Group group;
  group.mutable_task()->set_payload_json(R"({"question": "What is the sum of six and seven?", "id": 3})");
  v1::EpisodeTree& tree = Episode(group, 2);
  Deliver(*tree.mutable_calls(0), "The sum is thirteen.", "Six and seven make thirteen.");
  // 8 Han letters of 8 + 12.
  Deliver(*tree.mutable_calls(1), "So the sum is so", "总和是十三没有错");
  TermResult result = *ResultsOf(TermOf("language_mixing"), group)[0];
  ASSERT_EQ(result.calls.size(), 1u);
  EXPECT_EQ(result.calls.at(tree.calls(1).call_id()), -0.5) << "10 * 0.4 is capped at 1, over two calls";
  // One Han letter in 40: 10 * 0.025 over two calls.
  Deliver(*tree.mutable_calls(1), std::string(39, 'a') + "中");
  result = *ResultsOf(TermOf("language_mixing"), group)[0];
  EXPECT_NEAR(result.calls.at(tree.calls(1).call_id()), -0.125, 1e-12);
  // One in 50 is allowed.
  Deliver(*tree.mutable_calls(1), std::string(49, 'a') + "中");
  EXPECT_TRUE(ResultsOf(TermOf("language_mixing"), group)[0]->calls.empty());
}

TEST(LanguageMixing, GoesByTheOptionsLanguageBeforeTheTask) {
  v1::Group group;
  group.mutable_task()->set_payload_json(R"({"question": "Say it in Chinese."})");
  Deliver(*Episode(group, 1).mutable_calls(0), "答案是四十二");
  EXPECT_EQ(ValuesOf(TermOf("language_mixing"), group), std::vector<double>{-1});
  TermOptions options = TermOf("language_mixing");
  options.Of<LanguageMixingOptions>().language = "zh";
  EXPECT_EQ(ValuesOf(options, group), std::vector<double>{0});
}

}  // namespace
}  // namespace ingot::reward
