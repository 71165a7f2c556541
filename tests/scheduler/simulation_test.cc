// The simulated run: figures that can be worked out by hand, and what the three orders are for.
#include "scheduler/simulation.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ingot::scheduler {
namespace {

SimulationReport Report(const SimulationOptions& options) {
  const auto report = Simulate(options);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.value_or(SimulationReport());
}

// Two workers with episodes of 10 s, one group of two samples per batch, on-policy: 10 s of episodes, 5 s of training and
// 1 s of publishing follow each other, and only the last version's publishing is not waited for.
TEST(SimulationTest, OnPolicyTimesAddUp) {
  SimulationOptions options;
  options.window = {.groups_per_step = 1, .max_staleness = 0};
  options.group_size = 2;
  options.workers = 2;
  options.steps = 10;
  options.durations.distribution = "constant:10";
  options.step_seconds = 5;
  options.publish_seconds = 1;
  const SimulationReport report = Report(options);
  EXPECT_DOUBLE_EQ(report.seconds, 10 * 15 + 9 * 1);
  EXPECT_DOUBLE_EQ(report.trainer_idle, (10 * 10 + 9 * 1) / 159.0);
  EXPECT_DOUBLE_EQ(report.worker_idle, (10 * 5 + 9 * 1) / 159.0);
  EXPECT_EQ(report.ages, std::vector<int64_t>{10});
  EXPECT_DOUBLE_EQ(report.episodes_per_hour, 20 * 3600 / 159.0);
  EXPECT_DOUBLE_EQ(report.unused_work, 0);
  EXPECT_DOUBLE_EQ(report.batch_kl, 0) << "all episodes are alike";
}

SimulationOptions LongTails(WindowOrder order) {
  SimulationOptions options;
  options.window = {.groups_per_step = 8, .max_staleness = 3, .window_fraction = 0.3, .order = order};
  options.group_size = 4;
  options.workers = 128;
  options.steps = 200;
  options.durations.distribution = "lognormal:60,0.3";
  options.task_sigma = 1.2;
  options.step_seconds = 20;
  options.seed = 7;
  return options;
}

TEST(SimulationTest, EqualOptionsGiveAnEqualReport) {
  const SimulationReport first = Report(LongTails(WindowOrder::kWindowed));
  const SimulationReport second = Report(LongTails(WindowOrder::kWindowed));
  EXPECT_EQ(first.seconds, second.seconds);
  EXPECT_EQ(first.ages, second.ages);
  EXPECT_EQ(first.batch_kl, second.batch_kl);
  SimulationOptions other = LongTails(WindowOrder::kWindowed);
  other.seed = 8;
  EXPECT_NE(first.seconds, Report(other).seconds);
}

// Strict order waits for the slowest; greedy order is fastest and trains the quick groups first; the window is between.
TEST(SimulationTest, OrdersTradeSpeedForTheMixOfTheBatches) {
  const SimulationReport strict = Report(LongTails(WindowOrder::kStrict));
  const SimulationReport windowed = Report(LongTails(WindowOrder::kWindowed));
  const SimulationReport greedy = Report(LongTails(WindowOrder::kGreedy));
  EXPECT_LT(strict.episodes_per_hour, windowed.episodes_per_hour);
  EXPECT_LT(windowed.episodes_per_hour, greedy.episodes_per_hour);
  EXPECT_GT(strict.worker_idle, greedy.worker_idle);
  EXPECT_GT(greedy.early_kl, strict.early_kl);
  // The law's bound: S + ceil((W - 1) / P), W = floor(0.3 * 32) = 9; and strict order has W = 1.
  EXPECT_LE(std::ssize(windowed.ages) - 1, 3 + 1);
  EXPECT_LE(std::ssize(strict.ages) - 1, 3);
  EXPECT_GT(std::ssize(greedy.ages), std::ssize(windowed.ages)) << "no bound holds slow groups";
  for (const SimulationReport& report : {strict, windowed, greedy}) {
    EXPECT_EQ(report.groups, 200 * 8);
    EXPECT_EQ(std::accumulate(report.ages.begin(), report.ages.end(), int64_t{0}), 200 * 8);
    EXPECT_GT(report.noise_kl, 0);
  }
}

// In strict order batches are consecutive tasks: they differ from all submitted by chance alone.
TEST(SimulationTest, BatchesInStrictOrderAreAtTheNoiseFloor) {
  SimulationOptions options = LongTails(WindowOrder::kStrict);
  options.task_sigma = 0;  // independent samples, as the noise floor draws them
  options.durations.distribution = "lognormal:60,1";
  const SimulationReport report = Report(options);
  EXPECT_NEAR(report.batch_kl, report.noise_kl, 0.1 * report.noise_kl);
}

TEST(SimulationTest, DroppedGroupsAreCountedAsWork) {
  SimulationOptions options = LongTails(WindowOrder::kWindowed);
  options.drop_share = 0.5;
  options.task_sigma = 0;
  const SimulationReport report = Report(options);
  EXPECT_NEAR(report.dropped_work, 0.5, 0.05);
  EXPECT_EQ(report.groups, 200 * 8);
}

TEST(SimulationTest, RecordedDurationsAreDrawnByGroup) {
  SimulationOptions options = LongTails(WindowOrder::kStrict);
  options.durations.recorded = {{10, 10}, {1000}};
  options.workers = 1;
  options.steps = 25;
  options.window.max_staleness = 0;
  options.step_seconds = 1e-3;
  options.publish_seconds = 0;
  const SimulationReport report = Report(options);
  // 200 groups of four samples: all of 10 s or all of 1000 s, about half each.
  const double slow = (report.seconds - 25 * 1e-3 - 200 * 4 * 10) / (4 * 990);
  EXPECT_NEAR(slow, std::round(slow), 1e-6);
  EXPECT_NEAR(slow, 100, 30);
}

TEST(SimulationTest, TenThousandWorkersAreSimulated) {
  SimulationOptions options = LongTails(WindowOrder::kWindowed);
  options.workers = SimulationOptions::kMaxWorkers;
  options.window = {.groups_per_step = 128, .max_staleness = 9, .window_fraction = 0.3};
  options.group_size = 8;
  options.steps = 50;
  const SimulationReport report = Report(options);
  EXPECT_EQ(report.groups, 50 * 128);
  EXPECT_LT(report.worker_idle, 1);
}

TEST(SimulationTest, RejectsWhatItCannotSimulate) {
  SimulationOptions options;
  for (const char* text : {"", "lognormal", "lognormal:60", "lognormal:60,x", "constant:-1", "uniform:5,1",
                           "normal:1,1", "pareto:1,0", "constant:nan"}) {
    options.durations.distribution = text;
    EXPECT_TRUE(absl::IsInvalidArgument(Simulate(options).status())) << text;
  }
  options = {};
  options.workers = SimulationOptions::kMaxWorkers + 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Simulate(options).status()));
  options = {};
  options.drop_share = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Simulate(options).status()));
  options = {};
  options.durations.recorded = {{}};
  EXPECT_TRUE(absl::IsInvalidArgument(Simulate(options).status()));
}

}  // namespace
}  // namespace ingot::scheduler
