#include "model/sequence_attention.h"

#include "kernels/torch/tree_attention.h"

namespace ingot::model {

at::Tensor SequenceAttention::Attend(int64_t, const AttentionInput& input) {
  kernels::TreeAttentionOptions options;
  options.scale = input.spec.scale;
  options.visible_end = visible_end_;
  options.q_offset = 0;
  options.plans = plans_;
  options.sinks = input.sinks;
  options.window = input.spec.window;
  options.soft_cap = input.spec.soft_cap;
  if (options.window > 0) options.positions = positions_;
  return kernels::TreeAttention(input.q, input.k, input.v, options);
}

at::Tensor SequenceAttention::Recur(int64_t, const RecurrentInput& input) {
  const std::vector<int32_t> parents = kernels::ParentsOf(visible_end_, input.tensors.x.size(0));
  return kernels::GatedDelta(input.spec.shape, input.tensors, parents);
}

}  // namespace ingot::model
