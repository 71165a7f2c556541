// The trainer's batches: the scheduler's batches, with trees from the pool.
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

// Remembers some contexts of the last batch for the probe. Not thread safe.
class PoolBatchSource final : public trainer::BatchSource {
 public:
  // All arguments must outlive it.
  PoolBatchSource(const RoleClients& clients, const RetryPolicy& retry, StepLine& line);

  // `line` gets a note about the wait for the batch now and then.
  absl::StatusOr<trainer::TrainBatch> Next(int64_t step) override;

  const std::vector<std::vector<int32_t>>& contexts() const { return contexts_; }
  float temperature() const { return temperature_; }

 private:
  void CollectContexts(const std::vector<v1::Group>& groups);

  const RoleClients& clients_;
  const RetryPolicy& retry_;
  StepLine& line_;
  v1::FeedStats feed_;  // of the last batch, or at the start
  std::vector<std::vector<int32_t>> contexts_;
  float temperature_ = 1;
};

}  // namespace ingot::app
