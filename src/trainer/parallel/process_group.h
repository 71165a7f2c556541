// c10d process groups, over which ranks exchange tensors. Gloo carries tensors on the CPU and the ranks' messages; NCCL
// (nccl_group.h) carries tensors on devices, with the same calls.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>

#include "base/status.h"

namespace ingot::trainer {

struct ProcessGroupOptions {
  std::string host = "127.0.0.1";  // address at which the other ranks reach this one
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds join_timeout{120000};  // for all connections to be made
  std::chrono::milliseconds exchange_timeout{0};   // of one exchange; 0 = none
};

struct ProcessGroup {
  c10::intrusive_ptr<c10d::Backend> backend;
  // Closes the connections: waiting calls fail, here and on the other ranks. Any thread; may be called again.
  std::function<void()> abort;
};

// Finds the other ranks through `store`; blocks until all are connected. UNAVAILABLE: not all connected in time. By
// default, an exchange has no time limit: this code cannot know how long a rank may compute, and Liveness detects ranks
// that have died.
absl::StatusOr<ProcessGroup> MakeGlooGroup(const ProcessGroupOptions& options,
                                           const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ingot::trainer
