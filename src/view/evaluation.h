// Evaluations of a run as figures with intervals, by task, and their comparison between runs. The episodes come from the
// pool; the arithmetic is pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "datapool/client.h"
#include "view/rows.h"

namespace ingot::view {

// A mean with its 95 % interval, which never leaves the range of possible means. Fewer than two values: no interval
// (low = high).
struct Estimate {
  double mean = 0, low = 0, high = 0;
  int64_t values = 0;
};
// Wilson's score interval if every value is 0 or 1 (Wilson 1927, JASA 22, p. 209), and otherwise the percentile
// bootstrap (Efron 1979, Ann. Stat. 7, p. 1) with a fixed seed, so that the same values give the same interval.
Estimate EstimateOf(const std::vector<double>& values);

// The mean reward of each held-out task over its samples, by task id, or by SET/ID if the sets have names. A failed
// episode counts as 0.
using TaskRewards = std::map<std::string, double>;

// The task rewards of one version's evaluation. Empty = its trees are not stored. Errors are the pool's.
absl::StatusOr<TaskRewards> EvaluatedTasks(datapool::Client& pool, int64_t version);

// The groups of the evaluation of one version, in order. Empty = its trees are not stored. Errors are the pool's.
absl::StatusOr<std::vector<int64_t>> EvaluatedGroups(datapool::Client& pool, int64_t version);

// Over tasks, since the samples of one task are not independent.
Estimate EstimateOf(const TaskRewards& rewards);
// The difference `other` - `first`, paired by the tasks that both have. nullopt: fewer than two such tasks.
std::optional<Estimate> DifferenceOf(const TaskRewards& first, const TaskRewards& other);

// The versions whose evaluation the record has, with their mean rewards.
std::map<int64_t, double> EvaluatedVersions(const Rows& rows);

// eval/pass@K in the record, by version and K. Empty for records of programs that did not write it.
std::map<int64_t, std::map<int64_t, double>> EvaluatedPasses(const Rows& rows);

// The reward of a run's last steps: the mean of reward/mean over at most `steps` rows.
Estimate LastReward(const Rows& rows, size_t steps);

}  // namespace ingot::view
