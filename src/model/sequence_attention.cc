#include "model/sequence_attention.h"

#include "kernels/torch/tree_attention.h"

namespace ingot::model {

at::Tensor SequenceAttention::Attend(int64_t, const AttentionInput& input) {
  kernels::TreeAttentionOptions options;
  options.scale = input.spec.scale;
  options.visible_end = visible_end_;
  options.q_offset = 0;
  options.sinks = input.sinks;
  options.window = input.spec.window;
  options.soft_cap = input.spec.soft_cap;
  if (options.window > 0) options.positions = positions_;
  return kernels::TreeAttention(input.q, input.k, input.v, options);
}

}  // namespace ingot::model
