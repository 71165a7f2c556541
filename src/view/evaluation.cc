#include "view/evaluation.h"

#include <cmath>
#include <set>
#include <string_view>

#include "absl/strings/numbers.h"
#include "tree/episode_return.h"
#include "view/accounts.h"

namespace ingot::view {
namespace {

constexpr int64_t kEvalGroups = int64_t{1} << 20;  // of one version (tree.proto, EpisodeRef)
constexpr size_t kAll = 1'000'000;
constexpr std::string_view kPass = "eval/pass@";

std::string NameOf(const v1::Task& task) {
  return task.eval_set().empty() ? task.task_id() : absl::StrCat(task.eval_set(), "/", task.task_id());
}

int64_t VersionOf(const Row& row) {
  return static_cast<int64_t>(row.Get("eval/version", static_cast<double>(row.step)));
}

}  // namespace

Estimate EstimateOf(const std::vector<double>& values) {
  Estimate estimate;
  estimate.values = std::ssize(values);
  if (values.empty()) return estimate;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) estimate.mean += value / n;
  estimate.low = estimate.high = estimate.mean;
  if (values.size() < 2) return estimate;
  double squares = 0;
  for (const double value : values) squares += (value - estimate.mean) * (value - estimate.mean);
  const double margin = StudentT95(static_cast<int>(values.size()) - 1) * std::sqrt(squares / (n - 1) / n);
  estimate.low = estimate.mean - margin;
  estimate.high = estimate.mean + margin;
  return estimate;
}

absl::StatusOr<TaskRewards> EvaluatedTasks(datapool::Client& pool, int64_t version) {
  std::map<std::string, std::map<std::pair<int64_t, int>, double>> samples;  // newest attempt of each sample
  for (datapool::EpisodePages pages(pool, v1::PURPOSE_EVAL, version * kEvalGroups, (version + 1) * kEvalGroups - 1);
       !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) {
      const bool finished = episode.state() == v1::EPISODE_FINISHED;
      samples[NameOf(episode.task())][{episode.ref().group_id(), episode.ref().sample_index()}] =
          finished ? tree::ReturnOf(episode) : 0;
    }
  }
  TaskRewards rewards;
  for (const auto& [task, values] : samples) {
    double sum = 0;
    for (const auto& [sample, reward] : values) sum += reward;
    rewards[task] = sum / static_cast<double>(values.size());
  }
  return rewards;
}

absl::StatusOr<std::vector<int64_t>> EvaluatedGroups(datapool::Client& pool, int64_t version) {
  std::set<int64_t> groups;
  for (datapool::EpisodePages pages(pool, v1::PURPOSE_EVAL, version * kEvalGroups, (version + 1) * kEvalGroups - 1);
       !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) groups.insert(episode.ref().group_id());
  }
  return std::vector<int64_t>(groups.begin(), groups.end());
}

Estimate EstimateOf(const TaskRewards& rewards) {
  std::vector<double> values;
  for (const auto& [task, reward] : rewards) values.push_back(reward);
  return EstimateOf(values);
}

std::optional<Estimate> DifferenceOf(const TaskRewards& first, const TaskRewards& other) {
  std::vector<double> differences;
  for (const auto& [task, reward] : first) {
    const auto found = other.find(task);
    if (found != other.end()) differences.push_back(found->second - reward);
  }
  return differences.size() < 2 ? std::nullopt : std::optional(EstimateOf(differences));
}

std::map<int64_t, double> EvaluatedVersions(const Rows& rows) {
  std::map<int64_t, double> versions;
  for (const Row& row : rows.Last("eval/reward_mean", kAll)) {
    versions[VersionOf(row)] = row.Get("eval/reward_mean");
  }
  return versions;
}

std::map<int64_t, std::map<int64_t, double>> EvaluatedPasses(const Rows& rows) {
  std::map<int64_t, std::map<int64_t, double>> passes;
  for (const Row& row : rows.Last("eval/reward_mean", kAll)) {
    for (const auto& [name, value] : row.values) {
      int64_t k = 0;  // in the name of a domain's figure, the text after the mark is not a number
      if (name.starts_with(kPass) && absl::SimpleAtoi(name.substr(kPass.size()), &k)) passes[VersionOf(row)][k] = value;
    }
  }
  return passes;
}

Estimate LastReward(const Rows& rows, size_t steps) {
  std::vector<double> rewards;
  for (const Row& row : rows.Last("reward/mean", steps)) rewards.push_back(row.Get("reward/mean"));
  return EstimateOf(rewards);
}

}  // namespace ingot::view
