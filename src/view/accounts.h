// Where a run's seconds and tokens went, and what they bought. Pure functions over the rows of its record.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "view/rows.h"

namespace ingot::view {

struct Part {
  std::string name;  // for people
  double amount = 0;
};

// The wall clock of the trainer, from the first row's step to the last row. The parts add up to `wall`; the last two parts
// are not measured but left over:
//   "between steps"  the record, the poll of evaluations, a restart: wall clock outside all steps
//   "not named"      time within steps that no part measures
struct SecondsAccount {
  double wall = 0;
  double measured = 0;  // sum of the parts that were measured
  std::vector<Part> parts;
};

// `rows`: of steps, in order. Rows without perf/step_seconds are skipped.
SecondsAccount AccountSeconds(std::span<const Row> rows);

// Forge's efficiency over the given steps: tokens per second times the rise of reward/mean per million trained tokens.
// The rise is the slope of a least-squares line of reward/mean over the cumulative batch/loss_tokens.
struct Efficiency {
  int steps = 0;
  double value = 0;
  double low = 0, high = 0;  // 95 % interval by the slope's standard error and Student's t
  double tokens_per_second = 0;
  double reward_per_million = 0;
};

// nullopt: fewer than three steps have the three metrics, or no tokens were trained.
std::optional<Efficiency> EfficiencyOf(std::span<const Row> rows);

// Student's t for a two-sided interval of 95 %. REQUIRES: freedom >= 1.
double StudentT95(int freedom);

}  // namespace ingot::view
