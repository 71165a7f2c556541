// Compares two evaluations task by task: the mean difference, its interval, and a significance test. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "view/evaluation/evaluation.h"

namespace ingot::view {

// The difference `other` - `first`, over the tasks that both have.
struct PairedDifference {
  Estimate estimate;       // bootstrap interval; estimate.values is the number of common tasks
  double p_value = 1;      // two-sided; 1 with fewer than two common tasks
  int64_t only_first = 0;  // tasks that only this one has, which are left out
  int64_t only_other = 0;

  bool known() const { return estimate.values >= 2; }
  // Returns whether the difference is real: the test rejects chance at 5%, and the 95% interval excludes 0.
  bool real() const { return known() && p_value < 0.05 && (estimate.low > 0 || estimate.high < 0); }
};

// Pairs by task id (EvaluatedTasks). The p-value is from the sign-flip randomization test (Fisher 1935, The Design of
// Experiments, section 21): the share of all sign assignments to the tasks' differences with a mean at least as far
// from 0 as the observed mean. It enumerates the assignments for up to 16 differences other than 0. Otherwise, it
// samples 10,000 with a fixed seed, so the same values always give the same result.
PairedDifference DifferenceOf(const TaskRewards& first, const TaskRewards& other);

// Returns the tasks of the set with this name (eval.tasks).
TaskRewards TasksOfSet(const TaskRewards& tasks, const std::string& set);

// Returns the result in words, such as "+0.12 (0.05 to 0.19), p = 0.001, 200 tasks: the difference is real". With fewer
// than two common tasks, says so and what to do.
std::string Verdict(const PairedDifference& difference);

}  // namespace ingot::view
