#include "view/evaluation/requirement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace ingot::view {
namespace {

using ::testing::HasSubstr;

RequirementResult Check(const std::string& text, const Figures& figures,
                        const std::vector<EarlierEvaluation>& earlier = {}) {
  const auto requirement = ParseRequirement(text);
  EXPECT_TRUE(requirement.ok()) << requirement.status();
  const auto result = CheckRequirement(*requirement, figures, earlier);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

TEST(Requirement, ComparesAFigureWithAValue) {
  const Figures figures = {{"eval/reward_mean", 0.5}, {"eval/pass@4@set:code", 0.75}};
  EXPECT_TRUE(Check("reward_mean >= 0.5", figures).met);
  EXPECT_FALSE(Check("reward_mean > 0.5", figures).met);
  EXPECT_TRUE(Check("eval/reward_mean<=0.5", figures).met);
  EXPECT_FALSE(Check("reward_mean < 0.5", figures).met);
  EXPECT_TRUE(Check("  pass@4@set:code > -1e-3 ", figures).met);
  EXPECT_EQ(Check("reward_mean > 0.6", figures).text,
            "requirement NOT met: reward_mean > 0.6 (eval/reward_mean is 0.5000)");
}

TEST(Requirement, NamesAScaffoldAndAPass) {
  const auto of_one = ParseRequirement("pass@4@set:code@scaffold:codex-2 > 0.5");
  ASSERT_TRUE(of_one.ok()) << of_one.status();
  EXPECT_EQ(of_one->figure, "eval/pass@4@set:code");
  EXPECT_EQ(of_one->scaffold, "codex-2");
  EXPECT_EQ(PassOf(*of_one), 4);
  EXPECT_EQ(PassOf(*ParseRequirement("pass@16 > 0.5")), 16);
  EXPECT_EQ(ParseRequirement("pass@16 > 0.5")->scaffold, "");
  EXPECT_EQ(PassOf(*ParseRequirement("reward_mean@set:pass@3 > 0.5")), std::nullopt);
}

TEST(Requirement, ComparesWithTheBestEarlierEvaluation) {
  const std::vector<EarlierEvaluation> earlier = {
      {"step-1", {{"eval/reward_mean", 0.3}, {"eval/truncated_ratio", 0.1}}},
      {"step-2", {{"eval/reward_mean", 0.5}, {"eval/truncated_ratio", 0.4}}},
      {"step-3", {{"eval/reward_mean", std::numeric_limits<double>::quiet_NaN()}}}};
  const Figures figures = {{"eval/reward_mean", 0.48}, {"eval/truncated_ratio", 0.2}, {"eval/pass@1", 0}};
  EXPECT_TRUE(Check("reward_mean >= best - 0.02", figures, earlier).met);  // 0.5 - 0.02 is not exactly 0.48
  EXPECT_FALSE(Check("reward_mean >= best-0.01", figures, earlier).met);
  EXPECT_FALSE(Check("reward_mean >= best", figures, earlier).met);
  EXPECT_FALSE(Check("truncated_ratio <= best + 0.05", figures, earlier).met);  // the smallest is the best
  EXPECT_TRUE(Check("truncated_ratio <= best + 0.1", figures, earlier).met);
  EXPECT_THAT(Check("reward_mean > best", figures, earlier).text, HasSubstr("the best is 0.5000 of step-2"));
}

TEST(Requirement, IsMetByTheFirstEvaluation) {
  const RequirementResult first = Check("reward_mean > best + 1", {{"eval/reward_mean", 0}});
  EXPECT_TRUE(first.met);
  EXPECT_FALSE(Check("reward_mean > best", {{"eval/reward_mean", std::numeric_limits<double>::quiet_NaN()}}).met)
      << "no episode counted";
  EXPECT_THAT(first.text, HasSubstr("no earlier evaluation has this figure"));
}

TEST(Requirement, RejectsOtherForms) {
  for (const std::string text :
       {"", "reward_mean", "reward_mean = 1", ">= 1", "reward_mean >=", "reward_mean >= good", "reward_mean >= nan",
        "reward_mean >= inf", "reward_mean >= best 1", "reward_mean >= best - -1", "reward_mean >= bestest",
        "reward_mean >= best * 2", "reward_mean >= 1 2", "reward_mean => 1"}) {
    const auto parsed = ParseRequirement(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("Write FIGURE OPERATOR VALUE")) << text;
  }
}

TEST(Requirement, NamesTheFiguresThatExist) {
  const auto result = CheckRequirement(*ParseRequirement("rewardmean > 1"), {{"eval/reward_mean", 1}}, {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("no figure eval/rewardmean; available: eval/reward_mean"));
}

}  // namespace
}  // namespace ingot::view
