// The summary of a run at its end: reward curve, staleness, idle shares, and whether the goal was met.
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

// The mean of a metric over the steps that have it.
struct MetricMean {
  double sum = 0;
  int64_t steps = 0;
  double value() const { return steps == 0 ? 0 : sum / static_cast<double>(steps); }
};

// What the terminal and the summary show of a run's learning. The first is the reward, or, of a run whose terms give no
// reward, the verifier's outcome; then the reverse KL of each teacher.
Figures FiguresOf(const reward::RewardOptions& rewards);

// A figure by step.
struct Curve {
  Figure figure;
  std::vector<double> values;
};

// Sums over the run's steps.
struct RunTally {
  Figure reward = kReward.front();       // the first of the run's figures
  std::vector<double> rewards;           // its values, by step
  std::vector<Curve> curves;             // the other figures
  std::map<int64_t, int64_t> staleness;  // trained tokens by age in versions
  double trainer_idle_seconds = 0;
  double rollout_idle_seconds = 0;
  double step_seconds = 0;  // wall time of the steps counted above
  int64_t episodes = 0;
  std::optional<double> mismatch_max;       // over the steps that measured it
  std::map<std::string, MetricMean> means;  // by metric, of this process's steps
};

struct GoalVerdict {
  bool met = true;
  std::string text;  // empty = no goal
};

// The goal is met if the mean of the first goal.first_steps rewards is below its bound and the mean of the last
// goal.last_steps above, and if the newest evaluation's reward is above goal.eval_above. NaN, or no evaluation, never
// meets a goal.
// `name`: of the rewards.
GoalVerdict JudgeGoal(const GoalOptions& goal, const std::vector<double>& rewards, std::optional<double> evaluated,
                      const std::string& name = "reward");

// `since`: the first step of this process. Everything except the rewards covers only the steps from there on.
std::string FormatSummary(const RunTally& tally, double wall_seconds, int64_t since = 0);

// agent/*: from the trees of a batch.
//   completion_seconds  open to end, mean over episodes
//   tool_error_rate     calls whose tool call was malformed, of all calls
//   truncated_ratio     calls that ended by length, of all calls
//   parallel_branches   branches (named by the client, or forked) per episode, mean
//   repeat_ratio        calls that sampled the same ids as an earlier call of their episode, of all calls
std::map<std::string, double> AgentMetrics(const std::vector<v1::Group>& groups);

}  // namespace ingot::app
