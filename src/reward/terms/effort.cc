#include "reward/terms/effort.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/config.h"
#include "reward/delivered.h"

namespace ingot::reward {
namespace {

// Returns the number of tokens in the call's prompt that are not in its parent call's path.
int64_t AddedTokens(const CallFacts& call, const std::map<std::string, const CallFacts*>& by_id) {
  const auto parent = by_id.find(call.record->parent_call_id());
  if (parent == by_id.end()) return 0;
  return std::max<int64_t>(0, call.prompt_tokens - parent->second->prompt_tokens - parent->second->sampled_tokens);
}

}  // namespace

void Bind(base::Schema& schema, EffortOptions& o) {
  schema.Field("k", &o.k, "rate at which the penalty flattens, per thousand tokens", base::Positive());
  schema.Field("q", &o.q, "shape of the penalty; 0: linear, 1: logarithmic", base::InRange(0, 10));
  schema.Field("thinking", &o.thinking, "weight of thinking tokens", base::NotNegative());
  schema.Field("tool_call", &o.tool_call, "weight of tokens in tool calls", base::NotNegative());
  schema.Field("tool_output", &o.tool_output, "weight of tokens in tool results", base::NotNegative());
  schema.Field("final_text", &o.final_text, "weight of tokens in other text", base::NotNegative());
  schema.Field("call_weight", &o.call_weight, "thousands of tokens that each tool call counts as", base::NotNegative());
  schema.Field("turn_weight", &o.turn_weight, "thousands of tokens that each turn counts as", base::NotNegative());
  schema.Field("correct_above", &o.correct_above, "an outcome above this is correct");
  schema.Choice("charge_wrong", &o.charge_wrong, {"most", "own"},
                "cost of a wrong episode: most: the largest cost in its group; own: its own cost");
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
