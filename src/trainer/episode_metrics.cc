#include "trainer/episode_metrics.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "base/checksum.h"
#include "base/task_domain.h"
#include "tree/episode_return.h"
#include "tree/episode_time.h"
#include "tree/roles.h"
#include "tree/signal_bounds.h"

namespace ingot::trainer {
namespace {

// Returns whether the metric's maximum is also reported.
bool HasMax(std::string_view name) {
  return name == "response_length" || name == "num_turns" || name == "async/staleness";
}

int64_t TokensOf(const v1::EpisodeTree& tree, const std::string& key) {
  const auto found = tree.segments().find(base::Hex(key));
  return found == tree.segments().end() ? 0 : found->second.token_ids_size();
}

// Returns the share of the calls' prompt tokens that an earlier call of the episode had already computed or sampled, but
// that the engine did not have in its cache; nullopt = no call has a prompt.
std::optional<double> RecomputeShare(const v1::EpisodeTree& tree) {
  std::map<std::string_view, const v1::Call*> by_id;
  for (const v1::Call& call : tree.calls()) by_id[call.call_id()] = &call;
  double prompt = 0, recomputed = 0;
  for (const v1::Call& call : tree.calls()) {
    if (call.encoded() || call.weights() != v1::WEIGHTS_FOLLOW) continue;
    prompt += static_cast<double>(call.context_tokens());
    const auto parent = by_id.find(call.parent_call_id());
    if (!call.has_continued_segments() || parent == by_id.end()) continue;
    int64_t known = parent->second->context_tokens();
    const int shared = std::min(call.continued_segments(), parent->second->sampled_keys_size());
    for (int i = 0; i < shared; ++i) known += TokensOf(tree, parent->second->sampled_keys(i));
    recomputed += static_cast<double>(std::max<int64_t>(known - call.cached_tokens(), 0));
  }
  return prompt > 0 ? std::optional(recomputed / prompt) : std::nullopt;
}

void Print(const std::map<std::string, MeanMax>& values, const std::string& suffix, StepMetrics& metrics) {
  for (const auto& [name, value] : values) {
    if (!HasMax(name)) {
      metrics[name + suffix] = value.mean();
      continue;
    }
    const std::string separator = name == "async/staleness" ? "_" : "/";
    metrics[name + separator + "mean" + suffix] = value.mean();
    metrics[name + separator + "max" + suffix] = value.max;
  }
}

}  // namespace

template <typename Visit>
void EpisodeMetrics::ForEach(const v1::Episode& episode, Visit visit) {
  visit(all_);
  visit(by_domain_[base::DomainOf(episode.task().domain())]);
  visit(by_scaffold_[episode.scaffold().empty() ? "default" : episode.scaffold()]);
}

void EpisodeMetrics::AddEpisode(const v1::EpisodeTree& tree, int64_t sampled, int64_t trunk_turns) {
  const v1::Episode& episode = tree.episode();
  int64_t truncated = 0, halted = 0, paused = 0, repeated = 0, malformed = 0;
  std::set<std::string_view> continued;
  for (const v1::Call& call : tree.calls()) {
    truncated += call.finish() == v1::FINISH_LENGTH ? 1 : 0;
    halted += call.finish() == v1::FINISH_REPETITION ? 1 : 0;
    paused += call.sampled_keys_size() > 1 || call.finish() == v1::FINISH_PAUSED ? 1 : 0;
    repeated += call.fork_cause() == "retry" ? 1 : 0;
    malformed += call.tool_call_malformed() ? 1 : 0;
    if (!call.parent_call_id().empty()) continued.insert(call.parent_call_id());
  }
  for (const auto& [name, value] : episode.signals()) {
    if (signals_.contains(name) || static_cast<int64_t>(signals_.size()) == kMaxSignals) continue;
    signals_[name] = tree::HasOwnMetric(name) ? name : "signal/" + name;
  }
  const double calls = static_cast<double>(tree.calls_size());
  const std::optional<double> recompute = RecomputeShare(tree);
  ForEach(episode, [&](Values& values) {
    values["reward/batch_mean"].Add(tree::ReturnOf(episode));
    if (episode.has_reward()) values["reward/outcome"].Add(tree::ReturnOf<v1::Episode>(episode));
    for (const v1::TermValue& term : episode.grade().terms()) {
      values["reward/term/" + term.term()].Add(tree::ValueOf(term));
      for (const auto& [measure, number] : term.measures()) {
        values["reward/term/" + term.term() + "/" + measure].Add(number);
      }
    }
    values["response_length"].Add(static_cast<double>(sampled));
    values["num_turns"].Add(calls + static_cast<double>(trunk_turns));
    if (calls > 0) {
      values["agent/truncated_ratio"].Add(static_cast<double>(truncated) / calls);
      values["agent/halted_ratio"].Add(static_cast<double>(halted) / calls);
      values["agent/paused_ratio"].Add(static_cast<double>(paused) / calls);
      values["agent/repeat_ratio"].Add(static_cast<double>(repeated) / calls);
      values["agent/malformed_ratio"].Add(static_cast<double>(malformed) / calls);
      values["agent/parallel_branches"].Add(calls - static_cast<double>(continued.size()));
    }
    if (recompute.has_value()) values["rollout/recompute_share"].Add(*recompute);
    if (const double seconds = tree::SecondsOf(episode); seconds > 0) values["agent/episode_seconds"].Add(seconds);
    for (const auto& [name, value] : episode.signals()) {
      if (const auto it = signals_.find(name); it != signals_.end()) values[it->second].Add(value);
    }
  });
  AddRoles(tree);
}

void EpisodeMetrics::AddRoles(const v1::EpisodeTree& tree) {
  const auto& rewards = tree::CallRewardsOf(tree.episode());
  for (const auto& [role, turns] : tree::TurnsByRole(tree)) {
    const std::string name = role.empty() ? "default" : role;
    if (!role_returns_.contains(name) && std::ssize(role_returns_) == kMaxRoles) continue;
    double sum = tree::RewardOf(tree.episode());
    for (const int turn : turns) {
      const auto found = rewards.find(tree.calls(turn).call_id());
      if (found != rewards.end()) sum += found->second;
    }
    role_returns_[name].Add(sum);
  }
}

void EpisodeMetrics::AddToken(const v1::Episode& episode, int64_t age) {
  ForEach(episode, [&](Values& values) { values["async/staleness"].Add(static_cast<double>(age)); });
}

double EpisodeMetrics::reward_mean() const {
  const auto it = all_.find("reward/batch_mean");
  return it == all_.end() ? std::nan("") : it->second.mean();
}

void EpisodeMetrics::Report(StepMetrics& metrics) const {
  for (const char* always : {"response_length/mean", "response_length/max", "num_turns/mean", "num_turns/max",
                             "async/staleness_mean", "async/staleness_max"}) {
    metrics[always] = 0;  // present even in an empty batch
  }
  metrics["reward/batch_mean"] = reward_mean();
  Print(all_, "", metrics);
  if (by_domain_.size() > 1) {
    for (const auto& [domain, values] : by_domain_) Print(values, "@domain:" + domain, metrics);
  }
  if (by_scaffold_.size() > 1) {
    for (const auto& [scaffold, values] : by_scaffold_) Print(values, "@scaffold:" + scaffold, metrics);
  }
  if (role_returns_.size() > 1) {
    for (const auto& [role, value] : role_returns_) metrics["reward/batch_mean@role:" + role] = value.mean();
  }
}

}  // namespace ingot::trainer
