// What ranks exchange tensors over: c10d process groups. Gloo carries those on the CPU, and what ranks tell each other;
// NCCL (nccl_group.h) those on devices, with the same calls.
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
  std::string host = "127.0.0.1";  // address of this rank that the others reach it at
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds join_timeout{120000};  // for all connections to stand
};

struct ProcessGroup {
  c10::intrusive_ptr<c10d::Backend> backend;
  // Closes the connections, so that what waits on them fails here and on the other ranks. Any thread; may be called
  // again.
  std::function<void()> abort;
};

// Meets the other ranks in `store`; blocks until all are connected. UNAVAILABLE: not all came in time. An exchange
// itself has no time limit: how long a rank may work is not known here, and whether it lives is Liveness's to say.
absl::StatusOr<ProcessGroup> MakeGlooGroup(const ProcessGroupOptions& options,
                                           const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ingot::trainer
