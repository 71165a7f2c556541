// AttentionBackend is a layer's attention over keys and values. The trainer's implementation calls tree attention on the
// packed stream. Rollout's writes k and v into the paged cache and attends through block tables.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/layer_spec.h"

namespace ingot::model {

struct AttentionInput {
  const AttentionSpec& spec;
  at::Tensor q;      // [N, heads, head_dim], after norm and RoPE
  at::Tensor k, v;   // [N, kv_heads, head_dim], k after norm and RoPE; one tensor if spec.keys_are_values()
  at::Tensor sinks;  // [heads]; undefined = none
};

class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  // Returns [N, heads, head_dim].
  virtual at::Tensor Attend(int64_t layer, const AttentionInput& input) = 0;
};

}  // namespace ingot::model
