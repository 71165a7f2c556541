#include "trainer/metrics.h"

#include <cmath>

namespace ingot::trainer {

void LogprobGap::Add(double logprob, double recorded) {
  const double difference = logprob - recorded;
  abs_diff.Add(std::abs(difference));
  k3.Add(std::expm1(difference) - difference);
}

void LogprobGap::Add(const LogprobGap& other) {
  abs_diff.Add(other.abs_diff);
  k3.Add(other.k3);
}

void LogprobGap::Report(const std::string& prefix, StepMetrics& metrics) const {
  if (abs_diff.count == 0) return;
  metrics[prefix + "/k3_kl"] = k3.mean();
  metrics[prefix + "/logprob_abs_diff_mean"] = abs_diff.mean();
  metrics[prefix + "/logprob_abs_diff_max"] = abs_diff.max;
}

}  // namespace ingot::trainer
