// Formats the summary that is printed when a run ends: the reward curve, staleness, idle time, and whether the goal was
// met.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/run/run_config.h"
#include "app/terminal/terminal.h"
#include "proto/tree.pb.h"
#include "reward/options.h"

namespace ingot::app {

// Averages a metric over the steps that reported it.
struct MetricMean {
  double sum = 0;
  int64_t steps = 0;
  double value() const { return steps == 0 ? 0 : sum / static_cast<double>(steps); }
};

// Returns the learning figures that the terminal and the summary show. The first is the reward, or the verifier's
// outcome if the terms give no reward. The reverse KL of each teacher follows.
Figures FiguresOf(const reward::RewardOptions& rewards);

// The values of a figure, by step.
struct Curve {
  Figure figure;
  std::vector<double> values;
};

// Sums over the run's steps.
struct RunTally {
  Figure reward = kReward.front();       // the first of the run's figures
  std::vector<double> rewards;           // values of this figure, by step
  std::vector<Curve> curves;             // the other figures
  std::map<int64_t, int64_t> staleness;  // trained tokens by age in versions
  double trainer_idle_seconds = 0;
  double rollout_idle_seconds = 0;
  double step_seconds = 0;  // wall time of those steps
  int64_t episodes = 0;
  std::optional<double> mismatch_max;       // over the steps that measured it
  std::map<std::string, MetricMean> means;  // by metric name; only steps of this process
};

struct GoalVerdict {
  bool met = true;
  std::string text;  // empty = no goal
};

// The goal is met if the mean of the first goal.first_steps rewards is below its bound and the mean of the last
// goal.last_steps is above its bound, and if the newest evaluation's reward is above goal.eval_above. NaN, or no
// evaluation, never meets a goal. `name` is the rewards' name in the verdict.
GoalVerdict JudgeGoal(const GoalOptions& goal, const std::vector<double>& rewards, std::optional<double> evaluated,
                      const std::string& name = "reward");

// Except for the rewards, the summary covers only the steps from `since` on, this process's first step.
std::string FormatSummary(const RunTally& tally, double wall_seconds, int64_t since = 0);

// Computes the agent/* metrics from a batch's trees.
//   completion_seconds  time from opening to end, mean over episodes
//   tool_error_rate     share of calls with a malformed tool call
//   truncated_ratio     share of calls that stopped at the length limit
//   parallel_branches   mean branches per episode, named by the client or forked
//   repeat_ratio        share of calls that sampled the same ids as an earlier call of their episode
std::map<std::string, double> AgentMetrics(const std::vector<v1::Group>& groups);

}  // namespace ingot::app
