#include "app/checks/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ingot::app {
namespace {

using ::testing::HasSubstr;

TEST(Goal, WithoutBoundsIsMetAndSaysNothing) {
  const GoalVerdict verdict = JudgeGoal({}, {0.5, 0.1}, std::nullopt);
  EXPECT_TRUE(verdict.met);
  EXPECT_EQ(verdict.text, "");
}

TEST(Goal, BoundsTheFirstAndTheLastSteps) {
  const GoalOptions goal{.first_steps = 1, .first_reward_below = 0.3, .last_steps = 2, .last_reward_above = 0.7};
  EXPECT_TRUE(JudgeGoal(goal, {0.2, 0.7, 0.8}, std::nullopt).met);
  EXPECT_FALSE(JudgeGoal(goal, {0.3, 0.7, 0.8}, std::nullopt).met);
  EXPECT_FALSE(JudgeGoal(goal, {0.2, 0.6, 0.8}, std::nullopt).met);
  EXPECT_FALSE(JudgeGoal(goal, {0.2, std::nan(""), 0.8}, std::nullopt).met);
  EXPECT_THAT(JudgeGoal(goal, {0.2}, std::nullopt).text, HasSubstr("too few"));
}

TEST(Summary, StepsOfWhichNothingWasJudgedHaveNoReward) {
  RunTally tally;
  tally.rewards = {std::nan(""), 0.25, 0.5, std::nan("")};
  EXPECT_THAT(FormatSummary(tally, 1, 0), HasSubstr("  0.250 -> 0.500"));
  tally.rewards = {std::nan("")};
  EXPECT_THAT(FormatSummary(tally, 1, 0), Not(HasSubstr("->")));
}

TEST(Goal, BoundsTheLastEvaluation) {
  GoalOptions goal;
  goal.eval_above = 0.8;
  EXPECT_TRUE(JudgeGoal(goal, {}, 0.9).met);
  EXPECT_THAT(JudgeGoal(goal, {}, 0.9).text, HasSubstr("goal met: held-out reward 0.900 (above 0.8)"));
  EXPECT_FALSE(JudgeGoal(goal, {}, 0.8).met);
  EXPECT_FALSE(JudgeGoal(goal, {}, std::nan("")).met);
  const GoalVerdict missing = JudgeGoal(goal, {}, std::nullopt);
  EXPECT_FALSE(missing.met);
  EXPECT_THAT(missing.text, HasSubstr("NOT met: no evaluation of the last version"));
}

TEST(Goal, OfStepsAndEvaluationNeedsBoth) {
  GoalOptions goal{.last_steps = 1, .last_reward_above = 0.5};
  goal.eval_above = 0.5;
  EXPECT_TRUE(JudgeGoal(goal, {0.6}, 0.6).met);
  EXPECT_FALSE(JudgeGoal(goal, {0.6}, 0.4).met);
  EXPECT_FALSE(JudgeGoal(goal, {0.4}, 0.6).met);
}

TEST(Goal, NamesItsFigure) {
  const GoalOptions goal{.last_steps = 1, .last_reward_above = 0.5};
  EXPECT_THAT(JudgeGoal(goal, {0.6}, std::nullopt, "outcome").text, HasSubstr("mean outcome of the first"));
}

reward::TermOptions Term(const std::string& kind, const std::string& name = "", double weight = 1) {
  reward::TermOptions term;
  term.kind = kind;
  term.name = name;
  term.weight = weight;
  return term;
}

TEST(Figures, AreTheRewardOrOfATeacherAloneTheOutcomeAndTheReverseKl) {
  reward::RewardOptions rewards;
  EXPECT_EQ(FiguresOf(rewards), kReward);
  rewards.terms = {Term("outcome"), Term("length")};
  EXPECT_EQ(FiguresOf(rewards), kReward);
  const Figure kl{"reverse KL", "reward/term/teacher/reverse_kl"};
  rewards.terms = {Term("teacher")};
  EXPECT_EQ(FiguresOf(rewards), (Figures{{"outcome", "reward/outcome"}, kl}));
  rewards.terms = {Term("outcome"), Term("teacher")};
  EXPECT_EQ(FiguresOf(rewards), (Figures{kReward.front(), kl}));
  rewards.terms = {Term("outcome", "", 0), Term("teacher", "math"), Term("teacher", "code")};
  EXPECT_EQ(FiguresOf(rewards), (Figures{{"outcome", "reward/outcome"},
                                         {"reverse KL of math", "reward/term/math/reverse_kl"},
                                         {"reverse KL of code", "reward/term/code/reverse_kl"}}));
}

TEST(Summary, ShowsEachFigureFromItsFirstToItsLastStep) {
  RunTally tally;
  tally.rewards = {0.25, 0.5};
  EXPECT_THAT(FormatSummary(tally, 10), HasSubstr("reward by step   ▃▅  0.250 -> 0.500\nstaleness"));
  tally.reward = {"outcome", "reward/outcome"};
  tally.curves = {{{"reverse KL", "reward/term/teacher/reverse_kl"}, {1.6, 0.4}}};
  EXPECT_THAT(FormatSummary(tally, 10),
              HasSubstr("outcome by step  ▃▅  0.250 -> 0.500\nreverse KL       █▃  1.600 -> 0.400\nstaleness"));
}

}  // namespace
}  // namespace ingot::app
