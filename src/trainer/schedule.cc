#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ingot::trainer {

double LearningRate(const OptimizerOptions& options, int64_t step, int64_t total_steps) {
  if (step < options.warmup_steps) {
    return options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  }
  if (options.decay == "constant") return options.learning_rate;
  const double span = static_cast<double>(std::max<int64_t>(1, total_steps - options.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - options.warmup_steps) / span);
  const double left = options.decay == "linear" ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return options.learning_rate * (options.min_lr_ratio + (1.0 - options.min_lr_ratio) * left);
}

}  // namespace ingot::trainer
