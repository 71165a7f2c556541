// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "trainer/options.h"

namespace ingot::trainer {

// Rate of optimizer step `step` (from 0) in a stage of `total_steps`. Steps [0, warmup) rise linearly to the peak,
// which step warmup - 1 has; then the decay runs down to min_lr_ratio * peak, reached by step total_steps and kept
// after it.
double LearningRate(const OptimizerOptions& options, int64_t step, int64_t total_steps);

}  // namespace ingot::trainer
