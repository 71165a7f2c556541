#include "view/evaluation/eval_figures.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "base/checksum.h"
#include "tree/episode_return.h"
#include "tree/episode_time.h"
#include "view/evaluation/evaluation.h"

namespace ingot::view {
namespace {

int64_t SampledTokens(const v1::EpisodeTree& tree, const v1::Call& call) {
  int64_t tokens = 0;
  for (const std::string& key : call.sampled_keys()) {
    const auto segment = tree.segments().find(base::Hex(key));
    if (segment != tree.segments().end()) tokens += segment->second.token_ids_size();
  }
  return tokens;
}

// An end with a non-finite return counts as a failure, as in the scheduler.
bool HasReward(const v1::Episode& episode) {
  return episode.state() == v1::EPISODE_FINISHED && std::isfinite(tree::ReturnOf(episode));
}

// Returns the episode's tool error rate, or nullopt if it has neither a report nor calls.
std::optional<double> ToolErrorRate(const v1::EpisodeTree& tree) {
  const auto reported = tree.episode().signals().find("agent/tool_error_rate");
  if (reported != tree.episode().signals().end()) return reported->second;
  if (tree.calls_size() == 0) return std::nullopt;
  int64_t malformed = 0;
  for (const v1::Call& call : tree.calls()) malformed += call.tool_call_malformed() ? 1 : 0;
  return static_cast<double>(malformed) / static_cast<double>(tree.calls_size());
}

}  // namespace

double PassAtK(int64_t n, int64_t c, int64_t k) {
  if (n - c < k) return 1;
  double all_fail = 1;  // C(n-c, k) / C(n, k) as a product, which cannot overflow
  for (int64_t i = n - c + 1; i <= n; ++i) all_fail *= 1 - static_cast<double>(k) / static_cast<double>(i);
  return 1 - all_fail;
}

void EvalFigures::Add(const v1::EpisodeTree& tree) {
  const v1::Episode& episode = tree.episode();
  if (episode.state() == v1::EPISODE_INFRASTRUCTURE_FAILED) return;
  const bool rewarded = HasReward(episode);
  const double reward = rewarded ? tree::ReturnOf(episode) : 0;
  const bool success = rewarded && (reward >= success_ || tree::SameReturn(reward, success_));
  int64_t truncated = 0, tokens = 0;
  for (const v1::Call& call : tree.calls()) {
    truncated += call.finish() == v1::FINISH_LENGTH ? 1 : 0;
    if (call.weights() != v1::WEIGHTS_EXTERNAL) tokens += SampledTokens(tree, call);
  }
  const auto calls = static_cast<double>(tree.calls_size());
  const std::optional<double> tool_errors = ToolErrorRate(tree);
  const std::string& domain = episode.task().domain();
  std::vector<EvalPart*> parts = {&all_, &by_domain_[domain.empty() ? "default" : domain]};
  if (const std::string& set = episode.task().eval_set(); !set.empty()) parts.push_back(&by_set_[set]);
  for (EvalPart* part : parts) {
    TaskSums& task = part->tasks[episode.ref().group_id()];
    task.reward += reward;
    ++task.samples;
    task.successes += success ? 1 : 0;
    ++part->episodes;
    if (calls > 0) {
      ++part->with_calls;
      part->truncated += static_cast<double>(truncated) / calls;
    }
    part->tokens += static_cast<double>(tokens);
    part->turns += calls;
    part->seconds += tree::SecondsOf(episode);
    if (tool_errors) {
      ++part->with_tool_errors;
      part->tool_errors += *tool_errors;
    }
  }
}

double EvalFigures::RewardMean(const EvalPart& part) {
  double sum = 0;
  for (const auto& [group, task] : part.tasks) sum += task.reward;
  return sum / static_cast<double>(part.episodes);
}

void EvalFigures::Print(const EvalPart& part, const std::string& suffix, std::map<std::string, double>& metrics) const {
  const double mean = RewardMean(part);
  const auto episodes = static_cast<double>(part.episodes);
  const auto tasks = static_cast<double>(part.tasks.size());
  double squares = 0;
  for (const auto& [group, task] : part.tasks) {
    // A task's samples are not independent, so their deviations are added before squaring.
    const double deviation = task.reward - static_cast<double>(task.samples) * mean;
    squares += deviation * deviation;
  }
  if (tasks >= 2) metrics["eval/reward_stderr" + suffix] = std::sqrt(squares * tasks / (tasks - 1)) / episodes;
  for (const int64_t k : PassesOf(part, more_k_)) {
    double sum = 0, counted = 0;
    for (const auto& [group, task] : part.tasks) {
      if (task.samples < k) continue;
      sum += PassAtK(task.samples, task.successes, k);
      ++counted;
    }
    metrics[absl::StrCat("eval/pass@", k, suffix)] = sum / counted;
  }
  if (part.with_calls > 0) {
    metrics["eval/truncated_ratio" + suffix] = part.truncated / static_cast<double>(part.with_calls);
  }
  metrics["eval/response_length/mean" + suffix] = part.tokens / episodes;
  metrics["eval/num_turns/mean" + suffix] = part.turns / episodes;
  metrics["eval/seconds/mean" + suffix] = part.seconds / episodes;
  if (part.with_tool_errors > 0) {
    metrics["eval/tool_error_rate" + suffix] = part.tool_errors / static_cast<double>(part.with_tool_errors);
  }
}

void EvalFigures::PrintParts(const std::map<std::string, EvalPart>& parts, const std::string& label,
                             std::map<std::string, double>& metrics) const {
  for (const auto& [name, part] : parts) {
    const std::string suffix = label + name;
    Print(part, suffix, metrics);
    metrics["eval/reward_mean" + suffix] = RewardMean(part);
    metrics["eval/episodes" + suffix] = static_cast<double>(part.episodes);
  }
}

std::map<std::string, double> EvalFigures::Metrics() const {
  std::map<std::string, double> metrics;
  if (all_.episodes == 0) return metrics;
  Print(all_, "", metrics);
  if (by_domain_.size() > 1) PrintParts(by_domain_, "@domain:", metrics);
  PrintParts(by_set_, "@set:", metrics);
  return metrics;
}

std::vector<int64_t> PassesOf(const EvalPart& part, const std::vector<int64_t>& more) {
  int64_t most = 0;
  for (const auto& [group, task] : part.tasks) most = std::max(most, task.samples);
  std::set<int64_t> passes;
  for (int64_t k = 1; k <= most; k *= 2) passes.insert(k);
  for (const int64_t k : more) {
    if (k >= 1 && k <= most) passes.insert(k);
  }
  return {passes.begin(), passes.end()};
}

absl::Status AddEvaluation(datapool::Client& pool, int64_t version, EvalFigures& figures) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<int64_t> groups, EvaluatedGroups(pool, version));
  for (const int64_t id : groups) {
    v1::GetGroupRequest request;
    request.set_group_id(id);
    request.set_purpose(v1::PURPOSE_EVAL);
    const absl::StatusOr<v1::Group> group = pool.GetGroup(request);
    if (absl::IsNotFound(group.status())) continue;  // deleted in the meantime
    INGOT_RETURN_IF_ERROR(group.status());
    for (const v1::EpisodeTree& tree : group->episodes()) figures.Add(tree);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, double>> EvalFiguresOf(datapool::Client& pool, int64_t version, double success) {
  EvalFigures figures(success);
  INGOT_RETURN_IF_ERROR(AddEvaluation(pool, version, figures));
  return figures.Metrics();
}

}  // namespace ingot::view
