// BatchSource is the trainer's input: it returns the batch for each step. The trainer defines this interface, and the
// app implements it with the scheduler and the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "proto/tree.pb.h"

namespace ingot::trainer {

struct TrainBatch {
  int64_t step = 0;
  std::vector<v1::Group> groups;  // exactly groups_per_step, with whole trees
  v1::FeedStats feed;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Blocks until batch `step` exists. Returns CANCELLED if the run was stopped.
  virtual absl::StatusOr<TrainBatch> Next(int64_t step) = 0;
};

}  // namespace ingot::trainer
