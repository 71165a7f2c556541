// Metrics of a step: numbers under the names of docs/reference/metrics.md, and their accumulators. No torch.
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

// By metric name; ordered, so that two reports print alike.
using StepMetrics = std::map<std::string, double>;

// (layer, the loads of its experts over their mean), for each layer with experts.
using ExpertLoads = std::vector<std::pair<int64_t, std::vector<double>>>;

struct StepReport {
  int64_t step = 0;     // the trained batch; 0 is the first
  int64_t version = 0;  // the new version: step + 1
  StepMetrics metrics;
  // (age, number of trained tokens of that age), by age: trainer version - version that sampled the token.
  std::vector<std::pair<int64_t, int64_t>> staleness_histogram;
  ExpertLoads expert_loads;                // empty = the model has no experts, or the step was skipped
  std::chrono::nanoseconds stepped_at{0};  // on the trainer's clock: the optimizer's update had ended; 0 = skipped
};

// Mean and maximum over the entries of several micro-batches.
struct MeanMax {
  double sum = 0;
  double max = 0;  // 0 while nothing was added
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

// Tallies of an objective over the loss entries of a step; reported as means and as maxima, under these names.
struct MetricSums {
  std::map<std::string, MeanMax> means;
  std::map<std::string, MeanMax> maxima;
};

// The gap between log-probs under the current weights and the recorded ones. Recorded tokens are samples of the
// recorded policy. So k3 = r - 1 - log r with r = exp(logprob - recorded) estimates KL(recorded || current); it is
// never negative.
struct LogprobGap {
  MeanMax abs_diff;
  MeanMax k3;

  void Add(double logprob, double recorded);
  void Add(const LogprobGap& other);
  // Reports PREFIX/k3_kl, PREFIX/logprob_abs_diff_mean and PREFIX/logprob_abs_diff_max.
  void Report(const std::string& prefix, StepMetrics& metrics) const;
};

}  // namespace ingot::trainer
