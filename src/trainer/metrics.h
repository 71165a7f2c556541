// What a step reports: numbers under the names of docs/architecture.md, and the accumulators they come from. No torch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ingot::trainer {

// By metric name; ordered, so that two reports print alike.
using StepMetrics = std::map<std::string, double>;

struct StepReport {
  int64_t step = 0;     // the batch trained; 0 is the first
  int64_t version = 0;  // the version it made: step + 1
  StepMetrics metrics;
  // (trainer version - the version that sampled it, number of trained tokens), by age.
  std::vector<std::pair<int64_t, int64_t>> staleness_histogram;
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

// What an objective tallies over the loss entries of a step: reported as means and as maxima, under these names.
struct MetricSums {
  std::map<std::string, MeanMax> means;
  std::map<std::string, MeanMax> maxima;
};

// How far log-probs under the current weights are from the recorded ones. Recorded tokens are samples of the recorded
// policy, so k3 = r - 1 - log r with r = exp(logprob - recorded) estimates KL(recorded || current), and is never
// negative.
struct LogprobGap {
  MeanMax abs_diff;
  MeanMax k3;

  void Add(double logprob, double recorded);
  void Add(const LogprobGap& other);
  // Writes PREFIX/k3_kl, PREFIX/logprob_abs_diff_mean and PREFIX/logprob_abs_diff_max.
  void Report(const std::string& prefix, StepMetrics& metrics) const;
};

}  // namespace ingot::trainer
