// Inner loops of attention for the target's baseline.
#define INGOT_ISA portable
#define INGOT_ISA_NAME "portable"
#include "kernels/attention/attention_inner_impl.inc"

namespace ingot::kernels::inner {
template <>
const AttentionKernels<float>* AttentionPortable<float>() {
  return &portable::kAttention<portable::Plain<float>>;
}
template <>
const AttentionKernels<double>* AttentionPortable<double>() {
  return &portable::kAttention<portable::Plain<double>>;
}
template <>
const AttentionKernels<BFloat16>* AttentionPortable<BFloat16>() {
  return &portable::kAttention<portable::Widened>;
}
}  // namespace ingot::kernels::inner
