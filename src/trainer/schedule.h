// LearningRate is the schedule of the learning rate: a pure function of the step.
#pragma once

#include <cstdint>

#include "trainer/options.h"

namespace ingot::trainer {

// Rate of optimizer step `step` (from 0) in a stage of `total_steps`. It rises linearly over steps [0, warmup); step
// warmup - 1 has the peak. Then it decays to min_lr_ratio * peak, which step total_steps and all later ones have.
double LearningRate(const OptimizerOptions& options, int64_t step, int64_t total_steps);

}  // namespace ingot::trainer
