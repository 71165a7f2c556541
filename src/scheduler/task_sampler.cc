#include "scheduler/task_sampler.h"

#include <numeric>
#include <utility>

#include "base/rng.h"

namespace ingot::scheduler {

TaskSampler::TaskSampler(std::vector<v1::Task> tasks, uint64_t seed)
    : tasks_(std::move(tasks)), seed_(seed), order_(tasks_.size()) {}

const v1::Task& TaskSampler::At(int64_t group) {
  const auto count = static_cast<int64_t>(tasks_.size());
  if (group / count != pass_) Shuffle(group / count);
  return tasks_[static_cast<size_t>(order_[static_cast<size_t>(group % count)])];
}

void TaskSampler::Shuffle(int64_t pass) {
  std::iota(order_.begin(), order_.end(), 0);
  const uint64_t seed = base::DeriveSeed(seed_, static_cast<uint64_t>(pass));
  for (size_t i = order_.size(); i > 1; --i) {
    std::swap(order_[i - 1], order_[base::DeriveSeed(seed, i) % i]);
  }
  pass_ = pass;
}

}  // namespace ingot::scheduler
