#include "trainer/advantage.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tree/episode_return.h"

namespace ingot::trainer {
namespace {

constexpr double kStdEps = 1e-6;

bool AllSame(const std::vector<double>& values) {
  if (values.empty()) return true;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return tree::SameReturn(*low, *high);
}

double Mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// 1 / (population standard deviation + eps); 1 if the values are the same.
double InverseStd(const std::vector<double>& values) {
  if (AllSame(values)) return 1;
  const double mean = Mean(values);
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return 1.0 / (std::sqrt(squares / static_cast<double>(values.size())) + kStdEps);
}

std::vector<double> Values(const std::vector<EpisodeReturn>& group) {
  std::vector<double> values;
  for (const EpisodeReturn& episode : group) values.push_back(episode.value);
  return values;
}

double LeaveOneOut(const std::vector<double>& values, size_t out) {
  std::vector<double> others = values;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(out));
  return Mean(others);
}

double MeanByLength(const std::vector<EpisodeReturn>& group, const std::vector<double>& values) {
  double weighted = 0, tokens = 0;
  for (const EpisodeReturn& episode : group) {
    weighted += static_cast<double>(episode.tokens) * episode.value;
    tokens += static_cast<double>(episode.tokens);
  }
  return tokens > 0 ? weighted / tokens : Mean(values);
}

// B_i of every sample of the group. If all values under a mean are the same, each is its own baseline exactly: rounding
// must not become a gradient.
std::vector<double> Baselines(const std::vector<EpisodeReturn>& group, const std::vector<double>& values,
                              const std::string& rule, const std::vector<double>& batch) {
  if (rule == "none" || (rule == "leave_one_out" && values.size() == 1)) return std::vector<double>(values.size(), 0.0);
  if (AllSame(rule == "batch" ? batch : values)) return values;
  if (rule == "length") return std::vector<double>(values.size(), MeanByLength(group, values));
  std::vector<double> baselines(values.size(), Mean(rule == "batch" ? batch : values));
  for (size_t i = 0; rule == "leave_one_out" && i < values.size(); ++i) baselines[i] = LeaveOneOut(values, i);
  return baselines;
}

bool Zero(const GroupAdvantages& group) {
  for (const auto& turns : group.turns) {
    if (std::any_of(turns.begin(), turns.end(), [](double a) { return a != 0; })) return false;
  }
  return true;
}

void Scale(GroupAdvantages& group, double scale) {
  for (auto& turns : group.turns) {
    for (double& a : turns) a *= scale;
  }
}

}  // namespace

EpisodeReturn CreditTurns(double outcome, const std::vector<double>& turns, const std::string& credit,
                          double discount) {
  EpisodeReturn earned{outcome, std::vector<double>(turns.size())};
  for (size_t t = turns.size(); t-- > 0;) {
    if (t + 1 < turns.size()) earned.value *= discount;
    earned.credits[t] = earned.value += turns[t];
  }
  if (credit == "outcome") earned.credits.assign(turns.size(), earned.value);
  return earned;
}

std::vector<GroupAdvantages> Advantages(const std::vector<std::vector<EpisodeReturn>>& groups,
                                        const AdvantageRule& rule) {
  std::vector<double> all;
  for (const auto& group : groups) {
    for (const EpisodeReturn& episode : group) all.push_back(episode.value);
  }
  std::vector<GroupAdvantages> advantages;
  std::vector<double> centered;  // R_i - B_i of the groups that are not filtered
  for (const auto& group : groups) {
    const std::vector<double> values = Values(group);
    const std::vector<double> baselines = Baselines(group, values, rule.baseline, all);
    GroupAdvantages out;
    out.equal = values.size() > 1 && AllSame(values);
    for (size_t i = 0; i < group.size(); ++i) {
      out.turns.push_back(group[i].credits);
      for (double& a : out.turns.back()) a -= baselines[i];
    }
    if (rule.normalization == "mean") {
      const double mean = Mean(values);
      Scale(out, mean > 0 ? 1.0 / mean : 0.0);
    }
    out.filtered = rule.filter_zero_variance && Zero(out);
    for (size_t i = 0; i < group.size() && !out.filtered; ++i) centered.push_back(values[i] - baselines[i]);
    if (rule.normalization == "group") Scale(out, InverseStd(values));
    advantages.push_back(std::move(out));
  }
  if (rule.normalization == "batch") {
    const double scale = InverseStd(centered);
    for (GroupAdvantages& group : advantages) Scale(group, scale);
  }
  return advantages;
}

std::vector<double> TokenWeights(std::span<const CallExtent> calls, const std::string& aggregation, int64_t constant) {
  const bool per_episode = aggregation == "sequence" || aggregation == "constant";
  // The unit of the inner average: the whole batch, an episode or a group.
  const auto key = [&](const CallExtent& call) {
    return per_episode ? call.episode : aggregation == "prompt" ? call.group : 0;
  };
  std::map<int32_t, int64_t> tokens;
  for (const CallExtent& call : calls) {
    if (call.loss_tokens > 0) tokens[key(call)] += call.loss_tokens;
  }
  std::vector<double> weights;
  weights.reserve(calls.size());
  for (const CallExtent& call : calls) {
    const double inner = aggregation == "constant" ? static_cast<double>(constant)
                         : call.loss_tokens == 0   ? 0.0
                                                   : static_cast<double>(tokens.at(key(call)));
    weights.push_back(call.loss_tokens == 0 ? 0.0 : 1.0 / (static_cast<double>(tokens.size()) * inner));
  }
  return weights;
}

}  // namespace ingot::trainer
