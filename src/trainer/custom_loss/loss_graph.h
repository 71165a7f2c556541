// Represents a custom loss as a graph of torch operations, traced from the user's Python function
// (app/run/trace_loss.py describes the JSON). LibTorch runs it with autograd and without Python.
//
// TorchScript is not used, because torch.jit.trace silently keeps the branch that a condition took during tracing, and
// a saved module can contain any operation. Here, tracing uses tensors without values, so such a condition is an error,
// and only the operations in operations.h can run.
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

// The function's arguments, for T tokens. The fields have the names of LossGraph's inputs.
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

  // Returns INVALID_ARGUMENT if the JSON does not describe a graph, or, naming the node, if a node has an operation
  // that is not in operations.h, an unknown argument, or a reference to itself or a later node.
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
