#include "trainer/advantage.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace ingot::trainer {
namespace {

constexpr double kStdEps = 1e-6;

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double PopulationStd(const std::vector<double>& values) {
  const double mean = Mean(values);
  double squares = 0;
  for (double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

std::vector<double> GroupAdvantages(const std::vector<double>& rewards, bool leave_one_out, bool normalize) {
  const size_t n = rewards.size();
  std::vector<double> advantages(n, 0.0);
  if (n == 0) return advantages;
  // Equal rewards carry no signal; said exactly, not up to the rounding of their mean.
  if (n > 1 && std::all_of(rewards.begin(), rewards.end(), [&](double r) { return r == rewards[0]; })) {
    return advantages;
  }
  const double mean = Mean(rewards);
  for (size_t i = 0; i < n; ++i) {
    double baseline = mean;
    if (leave_one_out) {
      baseline = n == 1 ? 0.0 : (mean * static_cast<double>(n) - rewards[i]) / static_cast<double>(n - 1);
    }
    advantages[i] = rewards[i] - baseline;
  }
  if (normalize && n > 1) {
    const double scale = 1.0 / (PopulationStd(rewards) + kStdEps);
    for (double& a : advantages) a *= scale;
  }
  return advantages;
}

}  // namespace

std::vector<std::vector<double>> Advantages(const std::vector<std::vector<double>>& rewards,
                                            const std::string& baseline, const std::string& normalization) {
  std::vector<std::vector<double>> advantages;
  advantages.reserve(rewards.size());
  for (const auto& group : rewards) {
    advantages.push_back(GroupAdvantages(group, baseline == "leave_one_out", normalization == "group"));
  }
  if (normalization == "batch") {
    std::vector<double> all;
    for (const auto& group : advantages) all.insert(all.end(), group.begin(), group.end());
    const double scale = all.empty() ? 1.0 : 1.0 / (PopulationStd(all) + kStdEps);
    for (auto& group : advantages) {
      for (double& a : group) a *= scale;
    }
  }
  return advantages;
}

std::vector<double> TokenWeights(std::span<const CallExtent> calls, const std::string& aggregation) {
  // The key of what is averaged first: the batch, an episode or a group.
  const auto key = [&](const CallExtent& call) {
    return aggregation == "sequence" ? call.episode : aggregation == "prompt" ? call.group : 0;
  };
  std::map<int32_t, int64_t> tokens;
  for (const CallExtent& call : calls) {
    if (call.sampled_tokens > 0) tokens[key(call)] += call.sampled_tokens;
  }
  std::vector<double> weights;
  weights.reserve(calls.size());
  for (const CallExtent& call : calls) {
    const auto it = tokens.find(key(call));
    weights.push_back(
        call.sampled_tokens == 0 ? 0.0 : 1.0 / (static_cast<double>(tokens.size()) * static_cast<double>(it->second)));
  }
  return weights;
}

}  // namespace ingot::trainer
