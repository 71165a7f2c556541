// Computes a run's evaluation results by task, with confidence intervals, and compares runs. The episodes are read from
// the pool. The arithmetic is pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "datapool/client.h"
#include "view/rows.h"

namespace ingot::view {

inline constexpr int64_t kEvalGroups = int64_t{1} << 20;  // groups of one version (tree.proto, EpisodeRef)

// A mean and its 95% interval, which never exceeds the range of possible means. With fewer than two values, there is no
// interval (low = high).
struct Estimate {
  double mean = 0, low = 0, high = 0;
  int64_t values = 0;
};
// Uses the Wilson score interval if all values are 0 or 1 (Wilson 1927, JASA 22, p. 209). Otherwise, uses the
// percentile bootstrap (Efron 1979, Ann. Stat. 7, p. 1) with a fixed seed, so the same values always produce the same
// interval.
Estimate EstimateOf(const std::vector<double>& values);
// Same, but always uses the bootstrap.
Estimate BootstrapOf(const std::vector<double>& values);

// Returns {"mean", "low", "high", "values"}.
base::json::object EstimateJson(const Estimate& estimate);

// Each held-out task's mean reward over its samples, by task id, or by SET/ID if the sets have names. A failed episode
// counts as 0.
using TaskRewards = std::map<std::string, double>;

// Returns the task rewards from one version's evaluation, or an empty map if its trees are not stored. Errors come from
// the pool.
absl::StatusOr<TaskRewards> EvaluatedTasks(datapool::Client& pool, int64_t version);

// Returns the groups in one version's evaluation in order, or an empty vector if its trees are not stored. Errors come
// from the pool.
absl::StatusOr<std::vector<int64_t>> EvaluatedGroups(datapool::Client& pool, int64_t version);

// Averages over tasks because a task's samples are not independent.
Estimate EstimateOf(const TaskRewards& rewards);

// Returns the versions that have an evaluation in the record, with their mean rewards.
std::map<int64_t, double> EvaluatedVersions(const Rows& rows);

// Returns eval/pass@K from the record, by version and K. Empty if the program that wrote the record did not include it.
std::map<int64_t, std::map<int64_t, double>> EvaluatedPasses(const Rows& rows);

// Returns the mean of reward/mean over the last `steps` rows that have it.
Estimate LastReward(const Rows& rows, size_t steps);

}  // namespace ingot::view
