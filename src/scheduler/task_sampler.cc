#include "scheduler/task_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/rng.h"
#include "base/task_domain.h"

namespace ingot::scheduler {
namespace {

// Weight of the newest group in a task's success rate.
constexpr double kNewest = 0.3;
// Weight of a task that is always solved. It is still drawn occasionally, in case it is no longer solved.
constexpr double kMinWeight = 0.02;
// Random stream derived from the seed.
constexpr uint64_t kDraws = 1ull << 62;

// Returns nullopt if the task has no such number.
std::optional<double> NumberOf(const v1::Task& task, const std::string& field) {
  const auto payload = base::ParseJson(task.payload_json());
  const base::json::value* found = payload.ok() && !field.empty() ? base::Find(*payload, field) : nullptr;
  if (found == nullptr || !found->is_number()) return std::nullopt;
  const double value = found->to_number<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

absl::Status Lacks(const v1::Task& task, const std::string& number, const std::string& setting) {
  return absl::InvalidArgumentError(
      absl::StrCat("task '", task.task_id(), "' has no number '", number, "', which scheduler.sampling.", setting,
                   " needs; `ingot tasks rate` measures pass rates (scheduler.sampling.pass_rate_field)"));
}

// Returns each task's difficulty for a curriculum, larger = harder: its difficulty field, or its failure rate if no
// task has a difficulty.
absl::StatusOr<std::vector<double>> Difficulties(const std::vector<v1::Task>& tasks, const SamplingOptions& options) {
  const auto labelled = std::count_if(tasks.begin(), tasks.end(), [&](const v1::Task& task) {
    return NumberOf(task, options.difficulty_field).has_value();
  });
  const bool by_rate = labelled == 0 && !options.pass_rate_field.empty();
  std::vector<double> difficulties;
  for (const v1::Task& task : tasks) {
    const auto number = NumberOf(task, by_rate ? options.pass_rate_field : options.difficulty_field);
    if (!number.has_value() && by_rate) return Lacks(task, options.pass_rate_field, "pass_rate_field");
    if (!number.has_value()) return Lacks(task, options.difficulty_field, "order: curriculum");
    difficulties.push_back(by_rate ? 1 - *number : *number);
  }
  return difficulties;
}

}  // namespace

TaskSampler::TaskSampler(std::vector<v1::Task> tasks, const SamplingOptions& options, uint64_t seed)
    : tasks_(std::move(tasks)),
      options_(options),
      seed_(seed),
      known_(tasks_.size()),
      left_(std::ssize(tasks_)),
      order_(tasks_.size()) {}

absl::StatusOr<TaskSampler> TaskSampler::Make(std::vector<v1::Task> tasks, const SamplingOptions& options,
                                              uint64_t seed) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  TaskSampler sampler(std::move(tasks), options, seed);
  INGOT_RETURN_IF_ERROR(sampler.ReadTasks());
  return sampler;
}

absl::Status TaskSampler::ReadTasks() {
  std::map<std::string, int64_t> in_domain;  // tasks
  for (size_t i = 0; i < tasks_.size(); ++i) {
    index_[tasks_[i].task_id()] = i;
    ++in_domain[base::DomainOf(tasks_[i].domain())];
  }
  for (const auto& [domain, weight] : options_.domains) {
    if (!in_domain.contains(domain)) {
      return absl::InvalidArgumentError(
          absl::StrCat("scheduler.sampling.domains names '", domain, "', but no task has that domain"));
    }
  }
  if (!options_.domains.empty()) {
    for (const auto& [domain, count] : in_domain) {
      if (options_.domains.contains(domain)) continue;
      return absl::InvalidArgumentError(absl::StrCat("scheduler.sampling.domains has no weight for '", domain, "', of ",
                                                     count, " tasks: add one; with 0, its tasks are not used"));
    }
  }
  if (options_.order == "curriculum") {
    INGOT_ASSIGN_OR_RETURN(const std::vector<double> difficulty, Difficulties(tasks_, options_));
    std::vector<double> sorted = difficulty;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const auto easier = std::lower_bound(sorted.begin(), sorted.end(), difficulty[i]) - sorted.begin();
      known_[i].difficulty_rank = static_cast<double>(easier) / static_cast<double>(tasks_.size());
    }
  }
  if (!options_.pass_rate_field.empty()) {
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const auto rate = NumberOf(tasks_[i], options_.pass_rate_field);
      if (!rate.has_value()) return Lacks(tasks_[i], options_.pass_rate_field, "pass_rate_field");
      known_[i].success = std::clamp(*rate, 0.0, 1.0);
    }
  }
  return absl::OkStatus();
}

std::vector<double> TaskSampler::Weights(double progress, int stage) const {
  const double t = std::clamp(progress / std::max(options_.curriculum_until, 1e-9), 0.0, 1.0);
  const double start = options_.curriculum_start;
  const double competence = std::sqrt(t * (1 - start * start) + start * start);
  const bool hard_only = options_.hard_below > 0 && progress >= options_.warm_up;
  std::vector<double> weights(tasks_.size());
  std::map<std::string, int64_t> eligible;  // by domain, if domains have weights
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const TaskHistory& known = known_[i];
    if (options_.once && known.groups > 0) continue;
    if (stage < 1 && known.retired_until > ended_) continue;
    if (stage < 2 && options_.order == "curriculum" && known.difficulty_rank > competence) continue;
    if (stage < 2 && hard_only && known.success.value_or(0) >= options_.hard_below) continue;
    weights[i] = options_.order == "prioritized" ? std::max(kMinWeight, 1 - known.success.value_or(0)) : 1;
    if (!options_.domains.empty()) ++eligible[base::DomainOf(tasks_[i].domain())];
  }
  for (size_t i = 0; i < tasks_.size() && !eligible.empty(); ++i) {
    if (weights[i] == 0) continue;
    const std::string& domain = base::DomainOf(tasks_[i].domain());
    weights[i] *= options_.domains.at(domain) / static_cast<double>(eligible.at(domain));
  }
  return weights;
}

const v1::Task* TaskSampler::Choose(int64_t group, double progress) {
  if (options_.plain()) return &NextOfPass(group);
  for (int stage = 0; stage <= 2; ++stage) {
    const std::vector<double> weights = Weights(progress, stage);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (!(sum > 0)) continue;
    double left = base::UniformAt(base::DeriveSeed(seed_, kDraws), static_cast<uint64_t>(group)) * sum;
    size_t last = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] <= 0) continue;
      last = i;
      if ((left -= weights[i]) < 0) break;
    }
    return &tasks_[last];
  }
  return nullptr;
}

void TaskSampler::Admitted(const std::string& task_id) {
  const auto it = index_.find(task_id);
  if (it != index_.end() && known_[it->second].groups++ == 0) --left_;
}

void TaskSampler::Ended(const std::string& task_id, double success) {
  ++ended_;
  const auto it = index_.find(task_id);
  if (it == index_.end() || !std::isfinite(success)) return;
  TaskHistory& known = known_[it->second];
  known.success = known.success.has_value() ? (1 - kNewest) * *known.success + kNewest * success : success;
  known.uniform_in_a_row = success <= 0 || success >= 1 ? known.uniform_in_a_row + 1 : 0;
  if (options_.retire_after > 0 && known.uniform_in_a_row >= options_.retire_after) {
    known.retired_until = ended_ + options_.retire_groups;
    known.uniform_in_a_row = 0;
  }
}

const v1::Task& TaskSampler::NextOfPass(int64_t group) {
  const auto count = static_cast<int64_t>(tasks_.size());
  if (group / count != pass_) {
    pass_ = group / count;
    std::iota(order_.begin(), order_.end(), 0);
    const uint64_t seed = base::DeriveSeed(seed_, static_cast<uint64_t>(pass_));
    for (size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1], order_[base::DeriveSeed(seed, i) % i]);
    }
  }
  return tasks_[static_cast<size_t>(order_[static_cast<size_t>(group % count)])];
}

}  // namespace ingot::scheduler
