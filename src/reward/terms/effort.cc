#include "reward/terms/effort.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "reward/delivered.h"

namespace ingot::reward {
namespace {

// Tokens of the call's prompt that its parent call's path does not have.
int64_t AddedTokens(const CallFacts& call, const std::map<std::string, const CallFacts*>& by_id) {
  const auto parent = by_id.find(call.record->parent_call_id());
  if (parent == by_id.end()) return 0;
  return std::max<int64_t>(0, call.prompt_tokens - parent->second->prompt_tokens - parent->second->sampled_tokens);
}

}  // namespace

absl::Status EffortOptions::Validate() const {
  if (!(k > 0)) return absl::InvalidArgumentError(absl::StrCat("effort.k is ", k, ": a number above 0"));
  if (!(q >= 0 && q <= 10)) return absl::InvalidArgumentError(absl::StrCat("effort.q is ", q, ": from 0 to 10"));
  for (const double weight : {thinking, tool_call, tool_output, final_text, call_weight, turn_weight}) {
    if (weight >= 0 && std::isfinite(weight)) continue;
    return absl::InvalidArgumentError(absl::StrCat("a weight of effort is ", weight, ": a number of at least 0"));
  }
  if (charge_wrong == "most" || charge_wrong == "own") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("effort.charge_wrong is '", charge_wrong, "': most or own"));
}

double EffortCost(double x, double k, double q) {
  if (std::abs(1 - q) < 1e-9) return std::log1p(k * x) / k;
  return std::expm1((1 - q) * std::log1p(k * x)) / (k * (1 - q));
}

double EffortTerm::EffortOf(const EpisodeFacts& episode) const {
  std::map<std::string, const CallFacts*> by_id;
  for (const CallFacts& call : episode.calls) by_id[call.id()] = &call;
  double tokens = 0, tool_calls = 0, turns = 0;
  for (const CallFacts& call : episode.calls) {
    if (!call.policy) continue;
    const DeliveredMessage delivered = DeliveredBy(*call.record);
    const auto thinking = static_cast<double>(delivered.reasoning.size());
    const auto text = static_cast<double>(delivered.content.size());
    double calls = 0;
    for (const auto& tool : delivered.tool_calls)
      calls += static_cast<double>(tool.name.size() + tool.arguments.size());
    const double bytes = thinking + calls + text;
    const double weight =
        bytes == 0 ? options_.final_text
                   : (options_.thinking * thinking + options_.tool_call * calls + options_.final_text * text) / bytes;
    tokens += weight * static_cast<double>(call.sampled_tokens) +
              options_.tool_output * static_cast<double>(AddedTokens(call, by_id));
    tool_calls += static_cast<double>(delivered.tool_calls.size());
    ++turns;
  }
  return tokens / 1000 + options_.call_weight * tool_calls + options_.turn_weight * turns;
}

absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> EffortTerm::Judge(const GroupFacts& group) const {
  std::vector<double> costs;
  for (const EpisodeFacts& episode : group.episodes) {
    costs.push_back(EffortCost(EffortOf(episode), options_.k, options_.q));
  }
  std::vector<absl::StatusOr<TermResult>> results(costs.size(), TermResult());
  for (size_t i = 0; i < costs.size(); ++i) {
    const bool own = options_.charge_wrong == "own" || group.episodes[i].outcome() > options_.correct_above;
    results[i]->value = -(own ? costs[i] : *std::max_element(costs.begin(), costs.end()));
  }
  return results;
}

}  // namespace ingot::reward
