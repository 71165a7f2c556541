// Creates c10d process groups, which ranks use to exchange tensors. Gloo exchanges CPU tensors and the ranks' messages.
// NCCL (nccl_group.h) exchanges tensors on devices, with the same calls.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <string>

#include "base/status.h"
#include "trainer/parallel/c10d_types.h"

namespace ingot::trainer {

struct ProcessGroupOptions {
  std::string host = "127.0.0.1";  // address where the other ranks reach this one
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds join_timeout{120000};  // maximum time to establish all connections
  std::chrono::milliseconds exchange_timeout{0};   // time limit for one exchange; 0 = none
};

struct ProcessGroup {
  c10::intrusive_ptr<c10d::Backend> backend;
  // Closes the connections, so waiting calls fail here and on the other ranks. Thread safe and idempotent.
  std::function<void()> abort;
};

// Finds the other ranks through `store` and blocks until all are connected. Returns UNAVAILABLE if they do not all
// connect in time. By default, an exchange has no time limit, because ranks may compute for arbitrarily long, and
// Liveness detects dead ones.
absl::StatusOr<ProcessGroup> MakeGlooGroup(const ProcessGroupOptions& options,
                                           const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ingot::trainer
