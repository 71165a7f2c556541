// A custom loss as data: a graph of torch operations, traced from the user's Python function (app/run/trace_loss.py
// describes the JSON). LibTorch runs it with autograd and without Python.
//
// The graph is not TorchScript, because torch.jit.trace silently keeps the branch that a traced condition took, and a
// saved module can contain any operation. Here, the trace runs on tensors without values, so such a condition is an
// error, and only the operations in operations.h can run.
//
// Immutable and thread safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ingot::trainer {

// The function's arguments, for T tokens. Names are those of LossGraph's inputs.
struct LossInputs {
  at::Tensor logprobs;          // [T] fp64
  at::Tensor rollout_logprobs;  // [T] fp64
  at::Tensor advantages;        // [T] fp64
  at::Tensor mask;              // [T] bool
  at::Tensor segments;          // [T] int64 in [0, T): tokens of one call have the same number
  at::Tensor episodes;          // [T] int64 in [0, T): tokens of one episode have the same number
};

class LossGraph {
 public:
  static constexpr size_t kMaxNodes = 10000;

  // Returns INVALID_ARGUMENT if the JSON does not describe a graph, or names the node that has an operation outside
  // operations.h, an argument that the operation does not have, or a reference to itself or a later node.
  static absl::StatusOr<LossGraph> Parse(const std::string& json);

  LossGraph(LossGraph&& other) noexcept;
  LossGraph& operator=(LossGraph&& other) noexcept;
  ~LossGraph();

  // Returns true if a token's loss and metrics depend only on the same token's arguments.
  bool per_token() const;
  bool has_metrics() const;

  struct Values {
    at::Tensor loss;                                          // [T]
    std::vector<std::pair<std::string, at::Tensor>> metrics;  // by name: [T] or []
  };
  // Runs the operations in order. Records autograd history if an input requires it and grad mode is on. Throws
  // StatusError (torch_edge.h), with the line in the user's file, if an operation fails.
  Values Run(const LossInputs& inputs) const;

 private:
  struct Body;
  explicit LossGraph(std::unique_ptr<const Body> body);

  std::unique_ptr<const Body> body_;
};

}  // namespace ingot::trainer
