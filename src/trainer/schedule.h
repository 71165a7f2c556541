// Computes the learning-rate schedule, a pure function of the step.
#pragma once

#include <cstdint>

#include "trainer/options.h"

namespace ingot::trainer {

// Returns the learning rate for optimizer step `step` (starting at 0) in a stage with `total_steps`. The rate rises
// linearly over steps [0, warmup) and peaks at step warmup - 1. Then it decays to min_lr_ratio * peak at step
// total_steps and stays there.
double LearningRate(const OptimizerOptions& options, int64_t step, int64_t total_steps);

}  // namespace ingot::trainer
