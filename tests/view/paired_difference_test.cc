// The paired comparison of two evaluations: by hand for few tasks, and by its error rate for many.
#include "view/evaluation/paired_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "view/evaluation/comparison.h"
#include "view/make_run.h"

namespace ingot::view::paired_difference_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TaskRewards Rewards(const std::vector<double>& values) {
  TaskRewards rewards;
  for (size_t i = 0; i < values.size(); ++i) rewards["t" + std::to_string(i)] = values[i];
  return rewards;
}

TEST(DifferenceOf, PairsTheTasksThatBothHave) {
  const PairedDifference between =
      DifferenceOf({{"a", 0.1}, {"b", 0.5}, {"c", 0.0}}, {{"a", 0.3}, {"b", 0.7}, {"d", 1.0}, {"e", 1.0}});
  EXPECT_EQ(between.estimate.values, 2);
  EXPECT_NEAR(between.estimate.mean, 0.2, 1e-12);
  EXPECT_NEAR(between.estimate.high, 0.2, 1e-9);  // both tasks differ by the same
  EXPECT_EQ(between.only_first, 1);
  EXPECT_EQ(between.only_other, 2);
  EXPECT_FALSE(DifferenceOf({{"a", 1}}, {{"a", 0}}).known());
}

TEST(DifferenceOf, EnumeratesTheSignsOfFewTasks) {
  // Of the 2^4 signs of 1, 1, 1, 1, two give a sum of +-4.
  EXPECT_NEAR(DifferenceOf(Rewards({0, 0, 0, 0}), Rewards({1, 1, 1, 1})).p_value, 2.0 / 16, 1e-12);
  // 1, 1, -1: the sum is 1, and all 8 signs are at least as far from 0.
  EXPECT_NEAR(DifferenceOf(Rewards({0, 0, 1}), Rewards({1, 1, 0})).p_value, 1, 1e-12);
  // Tasks without a difference do not change it: 0.5, 0.25 of four tasks. The sum is 0.75 for 2 of 4 signs.
  EXPECT_NEAR(DifferenceOf(Rewards({0, 0, 1, 1}), Rewards({0.5, 0.25, 1, 1})).p_value, 0.5, 1e-12);
  EXPECT_EQ(DifferenceOf(Rewards({1, 0, 1}), Rewards({1, 0, 1})).p_value, 1);
}

TEST(DifferenceOf, FindsARealDifferenceAndNotChance) {
  std::vector<double> first, better;
  for (uint64_t i = 0; i < 200; ++i) {
    first.push_back(base::UniformAt(1, i) < 0.5 ? 1 : 0);
    better.push_back(base::UniformAt(2, i) < 0.75 ? 1 : 0);
  }
  const PairedDifference real = DifferenceOf(Rewards(first), Rewards(better));
  EXPECT_TRUE(real.real());
  EXPECT_LT(real.p_value, 0.001);
  EXPECT_GT(real.estimate.low, 0);
  EXPECT_THAT(Verdict(real), HasSubstr("200 tasks: the difference is real"));
  EXPECT_EQ(DifferenceOf(Rewards(first), Rewards(better)).p_value, real.p_value) << "the seed is fixed";
}

TEST(DifferenceOf, CallsChanceRealInAboutOneOfTwentyCases) {
  constexpr int kTrials = 200;
  int real = 0;
  for (uint64_t trial = 0; trial < kTrials; ++trial) {
    std::vector<double> first, other;
    for (uint64_t i = 0; i < 40; ++i) {
      first.push_back(base::UniformAt(10 + trial, i));
      other.push_back(base::UniformAt(10 + trial, 1000 + i));
    }
    real += DifferenceOf(Rewards(first), Rewards(other)).real() ? 1 : 0;
  }
  EXPECT_LE(real, 20);  // 10 expected; more than 20 has a probability below 0.002
}

TEST(Verdict, SaysWhatToDoWithDifferentTasks) {
  EXPECT_THAT(Verdict(DifferenceOf({{"a", 1}, {"b", 1}}, {{"c", 1}})),
              HasSubstr("not comparable: 2 and 1 tasks, of which 0 in common; evaluate both on the same eval.tasks"));
  const PairedDifference partial = DifferenceOf({{"a", 1}, {"b", 1}, {"c", 0}}, {{"a", 1}, {"b", 0}});
  EXPECT_THAT(Verdict(partial),
              HasSubstr("the difference may be chance; 1 task that only one of them has is left out"));
}

// A run's record with the evaluation of one version, of two sets.
class Evaluation {
 public:
  Evaluation(const std::string& name, TaskRewards tasks) {
    std::ofstream file(run_.folder() + "/metrics.jsonl");
    file
        << R"({"step": 0, "eval/version": 0, "eval/reward_mean": 0.5, "eval/pass@1": 0.5, "eval/reward_mean@set:easy": 1)"
        << R"(, "eval/reward_mean@set:hard": 0})" << "\n";
    file.close();
    EXPECT_TRUE(rows_.Refresh().ok());
    compared_.name = name;
    compared_.rows = &rows_;
    EXPECT_TRUE(ReadEvaluation(nullptr, compared_).ok());
    compared_.tasks = std::move(tasks);
  }
  const ComparedRun& run() const { return compared_; }

 private:
  testing::SmallRun run_;
  Rows rows_{run_.folder() + "/metrics.jsonl"};
  ComparedRun compared_;
};

TEST(Compare, PrintsAVerdictForAllTasksAndForEachSet) {
  TaskRewards before, after;
  for (int i = 0; i < 12; ++i) {
    before["easy/" + std::to_string(i)] = before["hard/" + std::to_string(i)] = after["hard/" + std::to_string(i)] = 0;
    after["easy/" + std::to_string(i)] = 1;
  }
  const Evaluation first("before", before), other("after", after);
  const std::string text = CompareText({first.run(), other.run()});
  EXPECT_THAT(text, HasSubstr("after - before: +0.5 ("));
  EXPECT_THAT(text, HasSubstr("24 tasks: the difference is real"));
  EXPECT_THAT(text, HasSubstr("  easy: +1 (1 to 1), p = 0.00049, 12 tasks: the difference is real"));
  EXPECT_THAT(text, HasSubstr("  hard: +0 (0 to 0), p = 1, 12 tasks: the difference may be chance"));
  const std::string json = base::PrintJson(CompareJson({first.run(), other.run()}));
  EXPECT_THAT(json, HasSubstr(R"("easy":{"tasks":12,"only_first":0,"only_other":0,"real":true,"mean":1)"));
  EXPECT_THAT(json, HasSubstr(R"("name":"before","steps":0)"));
}

TEST(Compare, NamesEvaluationsOnDifferentTasks) {
  const Evaluation first("a", {{"easy/1", 1}, {"easy/2", 1}}), other("b", {{"hard/1", 0}});
  EXPECT_THAT(CompareText({first.run(), other.run()}), HasSubstr("b - a: not comparable: 2 and 1 tasks"));
  const Evaluation deleted("c", {});
  EXPECT_THAT(CompareText({first.run(), deleted.run()}), Not(HasSubstr("not comparable")));
  EXPECT_THAT(base::PrintJson(CompareJson({first.run(), deleted.run()})), HasSubstr(R"("difference":null)"));
}

}  // namespace
}  // namespace ingot::view::paired_difference_test
