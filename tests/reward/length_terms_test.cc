// Terms of length and time: effort, overlong, completion time, repetition, Toggle. Each by numbers worked by hand.
#include <gtest/gtest.h>

#include "reward/terms/effort.h"
#include "reward/terms/language_mixing.h"
#include "reward/terms/overlong.h"
#include "reward/terms/parl.h"
#include "reward/terms/repetition.h"
#include "reward/terms/retrieval.h"
#include "reward/terms/toggle.h"
#include "term_maker.h"

namespace ingot::reward {
namespace {

TEST(Effort, CostIsThePublishedFormula) {
  EXPECT_DOUBLE_EQ(EffortCost(0, 1, 0.5), 0);
  // q 0.5: (sqrt(1 + 3) - 1) / 0.5 = 2. k 2: (sqrt(1 + 2 * 4) - 1) / (2 * 0.5) = 2.
  EXPECT_DOUBLE_EQ(EffortCost(3, 1, 0.5), 2);
  EXPECT_DOUBLE_EQ(EffortCost(4, 2, 0.5), 2);
  EXPECT_DOUBLE_EQ(EffortCost(5, 1, 0), 5) << "q 0 is linear";
  EXPECT_NEAR(EffortCost(std::exp(1.0) - 1, 1, 1), 1, 1e-12) << "q 1 is the logarithm";
  EXPECT_NEAR(EffortCost(7, 1, 1 - 1e-7), EffortCost(7, 1, 1), 1e-6) << "it goes over smoothly";
  EXPECT_NEAR(EffortCost(3, 1, 2), 0.75, 1e-12);  // (1/4 - 1) / -1
}

TEST(Effort, AWrongEpisodePaysAsMuchAsTheDearest) {
  v1::Group group;
  AddCall(AddEpisode(group, 1), 3000);
  AddCall(AddEpisode(group, 1), 8000);
  AddCall(AddEpisode(group, 0), 10);
  // C(3) = 2, C(8) = (3 - 1) / 0.5 = 4.
  EXPECT_EQ(ValuesOf(TermOf("effort"), group), (std::vector<double>{-2, -4, -4}));
  TermOptions own = TermOf("effort");
  own.Of<EffortOptions>().charge_wrong = "own";
  EXPECT_GT(ValuesOf(own, group)[2], -0.1);
}

TEST(Effort, WeighsPartsByTheirBytesAndCountsToolOutputCallsAndTurns) {
  v1::Group group;
  v1::EpisodeTree& tree = AddEpisode(group, 1);
  v1::Call& first = AddCall(tree, 1000);
  first.set_context_tokens(500);
  Deliver(first, "abcd", "abcd",
          "t1");  // the tool call has 1 + 7 bytes: a quarter each of text and thinking, half of it
  v1::Call& second = AddCall(tree, 100);
  second.set_parent_call_id(first.call_id());
  second.set_context_tokens(500 + 1000 + 250);
  Deliver(second, "done");
  TermOptions options = TermOf("effort");
  options.Of<EffortOptions>() = {.k = 1, .q = 0, .thinking = 4, .tool_call = 2, .tool_output = 3, .final_text = 1};
  // 1000 * (4/4 + 1/4 + 2/2) + 3 * 250 + 100 = 3100 tokens.
  EXPECT_NEAR(ValuesOf(options, group)[0], -3.1, 1e-12);
  options.Of<EffortOptions>() = {.k = 1,
                                 .q = 0,
                                 .thinking = 0,
                                 .tool_call = 0,
                                 .tool_output = 0,
                                 .final_text = 0,
                                 .call_weight = 0.5,
                                 .turn_weight = 0.25};
  EXPECT_NEAR(ValuesOf(options, group)[0], -(0.5 + 2 * 0.25), 1e-12);
}

TEST(Effort, LeavesOutCallsOfOtherModels) {
  v1::Group group;
  v1::EpisodeTree& tree = AddEpisode(group, 1);
  AddCall(tree, 3000);
  AddCall(tree, 9000).set_weights(v1::WEIGHTS_PINNED);
  EXPECT_EQ(ValuesOf(TermOf("effort"), group)[0], -2);
}

TEST(Overlong, GrowsLinearlyInTheSoftIntervalAndEndsAtMinusOne) {
  v1::Group group;
  for (const int32_t tokens : {0, 60, 70, 100, 101, 900}) AddCall(AddEpisode(group, 1), tokens);
  TermOptions options = TermOf("overlong");
  options.Of<OverlongOptions>() = {.max_tokens = 100, .soft_tokens = 40};
  EXPECT_EQ(ValuesOf(options, group), (std::vector<double>{0, 0, -0.25, -1, -1, -1}));
}

// Opened at 0; ends after so many seconds.
void Last(v1::EpisodeTree& tree, double seconds) {
  tree.mutable_episode()->set_opened_unix_ns(1'000'000'000);
  tree.mutable_episode()->set_ended_unix_ns(1'000'000'000 + static_cast<int64_t>(seconds * 1e9));
}

TEST(CompletionTime, ComparesCorrectEpisodesAlone) {
  v1::Group group;
  for (const auto& [outcome, seconds] : {std::pair(1.0, 10.0), {1.0, 20.0}, {1.0, 30.0}, {0.0, 1.0}, {0.0, 99.0}}) {
    Last(AddEpisode(group, outcome), seconds);
  }
  AddEpisode(group, 1);  // its time is unknown
  const std::vector<double> values = ValuesOf(TermOf("completion_time"), group), expected = {0.5, 0, -0.5, 0, 0, 0};
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-9) << i;
}

TEST(CompletionTime, OneCorrectEpisodeHasNothingToBeComparedWith) {
  v1::Group group;
  Last(AddEpisode(group, 1), 5);
  Last(AddEpisode(group, 0), 9);
  EXPECT_EQ(ValuesOf(TermOf("completion_time"), group), (std::vector<double>{0, 0}));
}

TEST(Repetition, IsTheShareOfRepeatedPhrasesAboveTheAllowed) {
  v1::Group group;
  // 1 2 1 2 1 2: five 2-grams, of which 12 and 21 are new and three repeat.
  AddCall(AddEpisode(group, 1), std::vector<int32_t>{1, 2, 1, 2, 1, 2});
  AddCall(AddEpisode(group, 1), std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  v1::EpisodeTree& twice = AddEpisode(group, 1);  // the same words in two calls are no repeat
  AddCall(twice, std::vector<int32_t>{1, 2, 3});
  AddCall(twice, std::vector<int32_t>{1, 2, 3});
  TermOptions options = TermOf("repetition");
  options.Of<RepetitionOptions>() = {.ngram = 2, .allowed = 0.2};
  const std::vector<double> values = ValuesOf(options, group);
  EXPECT_NEAR(values[0], -(0.6 - 0.2) / 0.8, 1e-12);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[2], 0);
}

TEST(Repetition, AHaltedCallNeverScoresAboveItsUnhaltedTwin) {
  v1::Group group;
  for (int i = 0; i < 2; ++i) AddCall(AddEpisode(group, 1), std::vector<int32_t>(40, 7));
  for (int i = 0; i < 2; ++i) AddCall(AddEpisode(group, 1), 40);
  for (const int i : {1, 3}) group.mutable_episodes(i)->mutable_calls(0)->set_finish(v1::FINISH_REPETITION);
  const std::vector<double> values = ValuesOf(TermOf("repetition"), group);
  EXPECT_EQ(values[1], -1);
  EXPECT_EQ(values[3], -1);
  EXPECT_GE(values[0], values[1]);
  EXPECT_GE(values[2], values[3]);
}

// Correct answers of 10, 20 and 30 tokens, and a wrong one.
v1::Group ThreeCorrect() {
  v1::Group group;
  for (const int32_t tokens : {10, 20, 30}) AddCall(AddEpisode(group, 1), tokens);
  AddCall(AddEpisode(group, 0), 90);
  return group;
}

TEST(Toggle, TakesTheOutcomeOfLongAnswersAndMeasuresTheBudget) {
  // rho 70 of three: rank ceil(2.1) = 3, so 30. rho 60: rank 2, so 20. The mean outcome is 0.75.
  TermOptions options = TermOf("toggle");
  EXPECT_EQ(ValuesOf(options, ThreeCorrect()), (std::vector<double>{0, 0, 0, 0}));
  options.Of<ToggleOptions>().rho = 60;
  EXPECT_EQ(ValuesOf(options, ThreeCorrect()), (std::vector<double>{0, 0, -1, 0}));
  EXPECT_EQ(ResultsOf(options, ThreeCorrect())[0]->measures.at("budget"), 20);
  options.Of<ToggleOptions>().lambda = 0.8;
  EXPECT_EQ(ValuesOf(options, ThreeCorrect()), (std::vector<double>{0, 0, 0, 0})) << "the group is below lambda";
  EXPECT_EQ(ResultsOf(options, ThreeCorrect())[0]->measures.at("budget"), 20) << "it is estimated all the same";
}

TEST(Toggle, KeepsTheBudgetOfTheTasksFirstGroup) {
  TermOptions options = TermOf("toggle");
  options.name = "brevity";
  const v1::Group group = ThreeCorrect();
  auto facts = FactsOf(group, 0, 100);
  ASSERT_TRUE(facts.ok());
  facts->history["brevity"]["budget"] = 15;
  const auto results = Judge(options, *facts);
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(results->at(0)->value, 0);
  EXPECT_EQ(results->at(1)->value, -1);
  EXPECT_EQ(results->at(2)->value, -1);
  EXPECT_EQ(results->at(2)->measures.at("budget"), 15);
}

TEST(Toggle, WithoutEnoughCorrectAnswersThereIsNoBudget) {
  TermOptions options = TermOf("toggle");
  options.Of<ToggleOptions>().min_correct = 4;
  const Results results = ResultsOf(options, ThreeCorrect());
  for (const auto& result : results) {
    EXPECT_EQ(result->value, 0);
    EXPECT_EQ(result->measures.count("budget"), 0u);
  }
}

TEST(TermOptions, RejectNumbersWithoutAMeaning) {
  const auto fault = [](TermOptions options) { return std::string(MakeTerm(options).status().message()); };
  TermOptions options = TermOf("effort");
  options.Of<EffortOptions>().k = 0;
  EXPECT_NE(fault(options).find("effort.k is 0"), std::string::npos);
  options = TermOf("overlong");
  options.Of<OverlongOptions>().soft_tokens = 30000;
  EXPECT_NE(fault(options).find("overlong.soft_tokens is 30000"), std::string::npos);
  options = TermOf("repetition");
  options.Of<RepetitionOptions>().allowed = 1;
  EXPECT_NE(fault(options).find("repetition.allowed is 1"), std::string::npos);
  options = TermOf("toggle");
  options.Of<ToggleOptions>().rho = 0;
  EXPECT_NE(fault(options).find("toggle.rho is 0"), std::string::npos);
  options = TermOf("language_mixing");
  options.Of<LanguageMixingOptions>().language = "klingon";
  EXPECT_NE(fault(options).find("'klingon'"), std::string::npos);
  options = TermOf("parl_parallel");
  options.Of<ParlParallelOptions>().cap = 0;
  EXPECT_NE(fault(options).find("parl_parallel.cap is 0"), std::string::npos);
  options = TermOf("retrieval");
  options.Of<RetrievalOptions>().beta = 0;
  EXPECT_NE(fault(options).find("retrieval.beta is 0"), std::string::npos);
}

}  // namespace
}  // namespace ingot::reward
