// Defines a step's metrics and their accumulators. The names are documented in docs/reference/metrics.md. Does not use
// torch.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ingot::trainer {

inline double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// Values by metric name. Sorted, so that reports always print in the same order.
using StepMetrics = std::map<std::string, double>;

// (layer, each expert's load divided by the layer's mean load), for each layer with experts.
using ExpertLoads = std::vector<std::pair<int64_t, std::vector<double>>>;

struct StepReport {
  int64_t step = 0;     // index of the trained batch, starting at 0
  int64_t version = 0;  // the new version: step + 1
  StepMetrics metrics;
  // (age, number of trained tokens), sorted by age. Age = trainer version - version that sampled the token.
  std::vector<std::pair<int64_t, int64_t>> staleness_histogram;
  ExpertLoads expert_loads;                // empty = the model has no experts, or the step was skipped
  std::chrono::nanoseconds stepped_at{0};  // when the optimizer's update finished, on the trainer's clock; 0 = skipped
};

// Accumulates a mean and maximum over the entries of several micro-batches.
struct MeanMax {
  double sum = 0;
  double max = 0;  // 0 until something is added
  int64_t count = 0;

  void Add(double value) {
    sum += value;
    max = count == 0 ? value : std::max(max, value);
    ++count;
  }
  void Add(const MeanMax& other) {
    if (other.count == 0) return;
    sum += other.sum;
    max = count == 0 ? other.max : std::max(max, other.max);
    count += other.count;
  }
  double mean() const { return count == 0 ? 0.0 : sum / static_cast<double>(count); }
};

// An objective's tallies over a step's loss entries, by metric name. Reported as means or maxima.
struct MetricSums {
  std::map<std::string, MeanMax> means;
  std::map<std::string, MeanMax> maxima;
};

// Measures the gap between log-probs under the current weights and the recorded ones. Recorded tokens are samples from
// the recorded policy, so k3 = r - 1 - log r with r = exp(logprob - recorded) estimates KL(recorded || current). k3 is
// never negative.
struct LogprobGap {
  MeanMax abs_diff;
  MeanMax k3;

  void Add(double logprob, double recorded);
  void Add(const LogprobGap& other);
  // Reports PREFIX/k3_kl, PREFIX/logprob_abs_diff_mean, and PREFIX/logprob_abs_diff_max.
  void Report(const std::string& prefix, StepMetrics& metrics) const;
};

}  // namespace ingot::trainer
