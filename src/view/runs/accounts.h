// Computes how a run spent its time and tokens, and the reward gained. Pure functions over the rows in its record.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "view/rows.h"

namespace ingot::view {

struct Part {
  std::string name;  // human-readable
  double amount = 0;
};

// The trainer's wall-clock time, from the first row's step to the last row. The parts add up to `wall`. The last two
// are not measured; they are the remainder:
//   "between steps"  time outside all steps: writing the record, polling evaluations, restarting
//   "not named"      time within steps that no part measures
struct SecondsAccount {
  double wall = 0;
  double measured = 0;  // sum of the measured parts
  std::vector<Part> parts;
};

// `rows` are the step rows, in order. Rows without perf/step_seconds are skipped.
SecondsAccount AccountSeconds(std::span<const Row> rows);

// Forge's efficiency metric over the given steps: tokens per second times the increase in reward/mean per million
// trained tokens. The increase is the slope of a least-squares fit of reward/mean over the cumulative
// batch/loss_tokens.
struct Efficiency {
  int steps = 0;
  double value = 0;
  double low = 0, high = 0;  // 95% interval from the slope's standard error and Student's t
  double tokens_per_second = 0;
  double reward_per_million = 0;
};

// Returns nullopt if fewer than three steps have the three metrics, or if no tokens were trained on.
std::optional<Efficiency> EfficiencyOf(std::span<const Row> rows);

// Returns Student's t for a two-sided 95% interval. REQUIRES: freedom >= 1.
double StudentT95(int freedom);

}  // namespace ingot::view
