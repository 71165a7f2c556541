#include "trainer/advantages/advantage.h"

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

// Returns 1 / (population standard deviation + eps), or 1 if the values are the same.
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
  for (size_t i = 0; i < group.size(); ++i) {
    weighted += static_cast<double>(group[i].tokens) * values[i];
    tokens += static_cast<double>(group[i].tokens);
  }
  return tokens > 0 ? weighted / tokens : Mean(values);
}

// Returns B_i for every sample in the group. If all values in a mean are the same, each is exactly its own baseline, so
// that rounding does not become a gradient.
std::vector<double> Baselines(const std::vector<EpisodeReturn>& group, const std::vector<double>& values,
                              const std::string& rule, const std::vector<double>& batch) {
  if (rule == "none" || (rule == "leave_one_out" && values.size() == 1)) return std::vector<double>(values.size(), 0.0);
  if (AllSame(rule == "batch" ? batch : values)) return values;
  if (rule == "length") return std::vector<double>(values.size(), MeanByLength(group, values));
  std::vector<double> baselines(values.size(), Mean(rule == "batch" ? batch : values));
  for (size_t i = 0; rule == "leave_one_out" && i < values.size(); ++i) baselines[i] = LeaveOneOut(values, i);
  return baselines;
}

// A sum of terms that may cancel each other. Prevents rounding from becoming a gradient.
class CancellingSum {
 public:
  void Add(double part) {
    sum_ += part;
    size_ += std::abs(part);
  }
  double value() const { return std::abs(sum_) <= 1e-9 * size_ ? 0.0 : sum_; }

 private:
  double sum_ = 0, size_ = 0;
};

// Returns the mean, or 0 if it is only rounding.
double CancellingMean(const std::vector<double>& values) {
  CancellingSum sum;
  for (const double value : values) sum.Add(value);
  return values.empty() ? 0 : sum.value() / static_cast<double>(values.size());
}

// A group's advantages before the batch scales them.
struct ComparedGroup {
  GroupAdvantages advantages;
  std::vector<double> centered;  // R_i - B_i per sample; S_i under `terms`
};

ComparedGroup ByReturn(const std::vector<EpisodeReturn>& group, const std::string& baseline,
                       const std::vector<double>& batch) {
  const std::vector<double> values = Values(group);
  const std::vector<double> baselines = Baselines(group, values, baseline, batch);
  ComparedGroup out;
  out.advantages.equal = values.size() > 1 && AllSame(values);
  for (size_t i = 0; i < group.size(); ++i) {
    out.advantages.turns.push_back(group[i].credits);
    for (double& a : out.advantages.turns.back()) a -= baselines[i];
    out.centered.push_back(values[i] - baselines[i]);
  }
  return out;
}

ComparedGroup ByTerms(const std::vector<EpisodeReturn>& group, const std::string& baseline) {
  ComparedGroup out;
  out.advantages.equal = group.size() > 1;
  const size_t terms = group.empty() ? 0 : group[0].terms.size();
  std::vector<std::vector<double>> baselines;  // [term][sample]
  std::vector<double> scales;                  // weight_k / D_k
  for (size_t k = 0; k < terms; ++k) {
    std::vector<double> values;
    for (const EpisodeReturn& episode : group) values.push_back(episode.terms[k].value);
    out.advantages.equal = out.advantages.equal && AllSame(values);
    baselines.push_back(Baselines(group, values, baseline, {}));
    scales.push_back(group[0].terms[k].weight * InverseStd(values));
  }
  for (size_t i = 0; i < group.size(); ++i) {
    CancellingSum whole;
    std::vector<CancellingSum> turns(group[i].credits.size());
    for (size_t k = 0; k < terms; ++k) {
      const TermReturn& term = group[i].terms[k];
      whole.Add(scales[k] * (term.value - baselines[k][i]));
      for (size_t t = 0; t < turns.size(); ++t) turns[t].Add(scales[k] * (term.credits[t] - baselines[k][i]));
    }
    out.centered.push_back(whole.value());
    out.advantages.turns.emplace_back();
    for (const CancellingSum& turn : turns) out.advantages.turns.back().push_back(turn.value());
  }
  return out;
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
  std::vector<double> centered;  // values for the groups that are not filtered
  const bool by_terms = rule.normalization == "terms";
  for (const auto& group : groups) {
    ComparedGroup compared = by_terms ? ByTerms(group, rule.baseline) : ByReturn(group, rule.baseline, all);
    GroupAdvantages& out = compared.advantages;
    if (rule.normalization == "mean") {
      const double mean = CancellingMean(Values(group));
      Scale(out, mean > 0 ? 1.0 / mean : 0.0);
    }
    out.filtered = rule.filter_zero_variance && Zero(out);
    if (!out.filtered) centered.insert(centered.end(), compared.centered.begin(), compared.centered.end());
    if (rule.normalization == "group") Scale(out, InverseStd(Values(group)));
    advantages.push_back(std::move(out));
  }
  if (rule.normalization == "batch" || by_terms) {
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
