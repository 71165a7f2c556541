// The accounts of a run's seconds, and its efficiency beside a figure made elsewhere.
#include "view/runs/accounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace ingot::view::accounts_test {
namespace {

Row Step(int64_t step, double time, std::map<std::string, double> values) { return {step, time, std::move(values)}; }

std::map<std::string, double> Parts(const SecondsAccount& account) {
  std::map<std::string, double> parts;
  for (const Part& part : account.parts) parts[part.name] = part.amount;
  return parts;
}

TEST(AccountSeconds, TheMeasuredPartsAndWhatIsLeftOverAreTheWallClock) {
  const std::map<std::string, double> values = {
      {"perf/step_seconds", 10},   {"perf/wait_seconds", 4},          {"perf/data_seconds", 0.5},
      {"perf/train_seconds", 4},   {"perf/probe_seconds", 1},         {"perf/step_kl_seconds", 0.5},
      {"perf/publish_seconds", 1}, {"perf/checkpoint_seconds", 0.25}, {"perf/update_variance_seconds", 0.25}};
  // Two steps of 10 s; 2 s pass between them, of which the record took 1.5 s, and 0.25 s of each step are in no part.
  std::map<std::string, double> recorded = values;
  recorded["perf/record_seconds"] = 1.5;
  const std::vector<Row> rows = {Step(0, 110, recorded),
                                 Step(1, 122, recorded)};  // the first row's is of an earlier step
  const SecondsAccount account = AccountSeconds(rows);
  EXPECT_DOUBLE_EQ(account.wall, 22);
  const std::map<std::string, double> parts = Parts(account);
  EXPECT_DOUBLE_EQ(parts.at("waiting for a batch"), 8);
  EXPECT_DOUBLE_EQ(parts.at("training"), 4.5);
  EXPECT_DOUBLE_EQ(parts.at("update variance"), 0.5);
  EXPECT_DOUBLE_EQ(parts.at("numerics probe"), 2);
  EXPECT_DOUBLE_EQ(parts.at("recording and evaluations"), 1.5);
  EXPECT_DOUBLE_EQ(parts.at("between steps"), 0.5);
  EXPECT_DOUBLE_EQ(parts.at("not named"), 0.5);
  double sum = 0;
  for (const auto& [name, amount] : parts) sum += amount;
  EXPECT_DOUBLE_EQ(sum, account.wall);
  EXPECT_DOUBLE_EQ(account.measured, 21);
  // With the share of the whole call that trains, the rest of it has a name too.
  std::map<std::string, double> more = values;
  more["perf/share_training"] = 0.425;
  EXPECT_DOUBLE_EQ(Parts(AccountSeconds(std::vector<Row>{Step(0, 110, more)})).at("kernel rates and metrics"), 0.25);
  EXPECT_EQ(AccountSeconds({}).wall, 0);
}

TEST(EfficiencyOf, IsTheSlopeOfTheRewardTimesTheRateWithItsInterval) {
  std::vector<Row> rows;
  const std::vector<double> rewards = {0.10, 0.14, 0.13, 0.22, 0.20, 0.27, 0.31, 0.29, 0.36, 0.41};
  for (size_t i = 0; i < rewards.size(); ++i) {
    rows.push_back(Step(static_cast<int64_t>(i), 0,
                        {{"reward/mean", rewards[i]},
                         {"batch/loss_tokens", 40'000 + 1000.0 * static_cast<double>(i)},
                         {"perf/tokens_per_second", 2000},
                         {"perf/step_seconds", 5}}));
  }
  const Efficiency found = EfficiencyOf(rows).value();
  // In Python: the residuals of the least-squares line over x = cumsum(40000 + 1000 i) / 1e6; t(8, 0.975) = 2.306.
  EXPECT_NEAR(found.reward_per_million, 0.7371355, 1e-6);
  EXPECT_NEAR(found.value, 2000 * 0.7371355, 1e-3);
  EXPECT_NEAR(found.high - found.value, 2000 * 2.306 * 0.0571049, 1e-2);
  EXPECT_NEAR(found.value - found.low, found.high - found.value, 1e-9);
  EXPECT_EQ(found.steps, 10);
}

TEST(EfficiencyOf, SaysNothingWithoutThreeStepsOrWithoutTokens) {
  const Row row = Step(
      0, 0, {{"reward/mean", 1}, {"batch/loss_tokens", 0}, {"perf/tokens_per_second", 1}, {"perf/step_seconds", 1}});
  EXPECT_FALSE(EfficiencyOf(std::vector<Row>{row, row}).has_value());
  EXPECT_FALSE(EfficiencyOf(std::vector<Row>{row, row, row}).has_value());
}

}  // namespace
}  // namespace ingot::view::accounts_test
