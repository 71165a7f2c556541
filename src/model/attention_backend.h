// Interface for the part of a layer where rows interact: attention over keys and values, or a recurrence along each
// row's ancestors. The trainer's implementation runs tree attention on the packed stream, and recurrences along its
// trees. Rollout's implementation writes k and v to the paged cache, attends through block tables, and stores one
// recurrent state per block.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "kernels/torch/gated_delta.h"
#include "kernels/torch/pages.h"
#include "model/layer_spec.h"

namespace ingot::model {

struct AttentionInput {
  const AttentionSpec& spec;
  at::Tensor q;  // [N, heads, head_dim], after norm and RoPE
  // [N, kv_heads, head_dim], k after norm and RoPE; one tensor if spec.keys_are_values(). Undefined = the layer has
  // written them to Pages.
  at::Tensor k, v;
  at::Tensor sinks;  // [heads]; undefined = none
};

struct RecurrentInput {
  const RecurrentSpec& spec;
  kernels::DeltaInput tensors;
};

class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  // Returns where the layer may write keys and values of this type itself, in the launch that rotates them; nullopt =
  // Attend takes them. A backend with pages has all rows and heads in this process, and no autograd.
  virtual std::optional<kernels::PageRows> Pages(int64_t layer, at::ScalarType type);
  // Returns [N, heads, head_dim].
  virtual at::Tensor Attend(int64_t layer, const AttentionInput& input) = 0;
  // Returns [N, value_heads, value_dim]. Throws c10::Error unless overridden.
  virtual at::Tensor Recur(int64_t layer, const RecurrentInput& input);
  // Receives and returns a tensor that a layer computes before attention or recurrence and uses after it. An
  // implementation that splits the autograd graph here returns the tensor without its history.
  virtual at::Tensor PassThrough(int64_t layer, const at::Tensor& gate);
};

}  // namespace ingot::model
