#include "view/evaluation/evaluation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "absl/strings/numbers.h"
#include "base/rng.h"
#include "tree/episode_return.h"

namespace ingot::view {
namespace {

constexpr size_t kAll = 1'000'000;
constexpr std::string_view kPass = "eval/pass@";

std::string NameOf(const v1::Task& task) {
  return task.eval_set().empty() ? task.task_id() : absl::StrCat(task.eval_set(), "/", task.task_id());
}

int64_t VersionOf(const Row& row) {
  return static_cast<int64_t>(row.Get("eval/version", static_cast<double>(row.step)));
}

Estimate MeanOf(const std::vector<double>& values) {
  Estimate estimate;
  estimate.values = std::ssize(values);
  for (const double value : values) estimate.mean += value / static_cast<double>(values.size());
  estimate.low = estimate.high = estimate.mean;
  return estimate;
}

void SetWilson(Estimate& estimate) {
  constexpr double kZ = 1.959964;  // 97.5% quantile of the normal distribution
  const auto n = static_cast<double>(estimate.values);
  const double p = estimate.mean, spread = kZ * kZ / n;
  const double center = (p + spread / 2) / (1 + spread);
  const double margin = kZ * std::sqrt(p * (1 - p) / n + spread / (4 * n)) / (1 + spread);
  estimate.low = std::max(0.0, center - margin);
  estimate.high = std::min(1.0, center + margin);
}

void SetBootstrap(const std::vector<double>& values, Estimate& estimate) {
  constexpr int kResamples = 2000;
  constexpr uint64_t kSeed = 1;
  const size_t n = values.size();
  std::vector<double> means(kResamples);
  uint64_t draws = 0;
  for (double& mean : means) {
    for (size_t i = 0; i < n; ++i) {
      const auto drawn = static_cast<size_t>(base::UniformAt(kSeed, draws++) * static_cast<double>(n));
      mean += values[drawn] / static_cast<double>(n);
    }
  }
  std::sort(means.begin(), means.end());
  estimate.low = means[kResamples / 40];
  estimate.high = means[kResamples - 1 - kResamples / 40];
}

}  // namespace

Estimate BootstrapOf(const std::vector<double>& values) {
  Estimate estimate = MeanOf(values);
  if (values.size() >= 2) SetBootstrap(values, estimate);
  return estimate;
}

Estimate EstimateOf(const std::vector<double>& values) {
  Estimate estimate = MeanOf(values);
  if (values.size() < 2) return estimate;
  const bool binary = std::all_of(values.begin(), values.end(), [](double value) { return value == 0 || value == 1; });
  binary ? SetWilson(estimate) : SetBootstrap(values, estimate);
  return estimate;
}

base::json::object EstimateJson(const Estimate& estimate) {
  return {{"mean", estimate.mean}, {"low", estimate.low}, {"high", estimate.high}, {"values", estimate.values}};
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
      int64_t k = 0;  // in a domain's metric name, the text after the mark is not a number
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
