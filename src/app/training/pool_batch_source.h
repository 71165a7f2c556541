// Provides the trainer's batches. Combines batches from the scheduler with trees from the pool.
#pragma once

#include <cstdint>
#include <vector>

#include "app/cluster/role_clients.h"
#include "app/run/persist.h"
#include "app/terminal/terminal.h"
#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "trainer/batch_source.h"

namespace ingot::app {

// Saves some of the last batch's contexts for the probe. Not thread safe.
class PoolBatchSource final : public trainer::BatchSource {
 public:
  // REQUIRES: all arguments outlive this object.
  PoolBatchSource(const RoleClients& clients, const RetryPolicy& retry, StepLine& line);

  // `line` occasionally receives notes while this waits for the batch.
  absl::StatusOr<trainer::TrainBatch> Next(int64_t step) override;

  const std::vector<std::vector<int32_t>>& contexts() const { return contexts_; }
  float temperature() const { return temperature_; }

 private:
  void CollectContexts(const std::vector<v1::Group>& groups);

  const RoleClients& clients_;
  const RetryPolicy& retry_;
  StepLine& line_;
  v1::FeedStats feed_;  // feed state at the last batch, or at the start
  std::vector<std::vector<int32_t>> contexts_;
  float temperature_ = 1;
};

}  // namespace ingot::app
