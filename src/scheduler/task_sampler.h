// Which task a group gets: shuffled passes over the task list. The answer depends on the group's id and the seed alone,
// so that nothing has to be stored to resume. Not thread safe (keeps the current pass's order).
#pragma once

#include <cstdint>
#include <vector>

#include "proto/tree.pb.h"

namespace ingot::scheduler {

class TaskSampler {
 public:
  // REQUIRES: before At is called, that `tasks` is not empty.
  TaskSampler(std::vector<v1::Task> tasks, uint64_t seed);

  // Each pass of tasks.size() consecutive groups holds every task once.
  const v1::Task& At(int64_t group);

 private:
  void Shuffle(int64_t pass);

  const std::vector<v1::Task> tasks_;
  const uint64_t seed_;
  int64_t pass_ = -1;
  std::vector<int32_t> order_;
};

}  // namespace ingot::scheduler
