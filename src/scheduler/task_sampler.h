// The task of each group: shuffled passes over the task list. The answer depends on the group's id and the seed alone,
// so that a resume needs no stored state. Not thread safe: it caches one pass's order.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/tree.pb.h"

namespace ingot::scheduler {

class TaskSampler {
 public:
  // `tasks` may be empty if At is never called.
  TaskSampler(std::vector<v1::Task> tasks, uint64_t seed);

  // The task of a group. Each pass of tasks.size() consecutive groups holds every task once.
  const v1::Task& At(int64_t group);

 private:
  void Shuffle(int64_t pass);

  const std::vector<v1::Task> tasks_;
  const uint64_t seed_;
  int64_t pass_ = -1;           // of order_; -1 = none yet
  std::vector<int32_t> order_;  // of the tasks in this pass
};

}  // namespace ingot::scheduler
