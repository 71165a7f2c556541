// Inner loops of attention for avx2. Compiled with avx2 flags, so nothing here may be called before the check in
// instruction_set.cc.
#define INGOT_ISA avx2
#define INGOT_ISA_NAME "avx2"
#include "kernels/attention/attention_inner.h"

#if defined(__AVX2__) && defined(__FMA__)
#include "kernels/attention/attention_inner_impl.inc"
#define INGOT_TABLE(P) &avx2::kAttention<avx2::P>
#else  // another architecture
#define INGOT_TABLE(P) nullptr
#endif

namespace ingot::kernels::inner {
template <>
const AttentionKernels<float>* AttentionAvx2<float>() {
  return INGOT_TABLE(Plain<float>);
}
template <>
const AttentionKernels<double>* AttentionAvx2<double>() {
  return INGOT_TABLE(Plain<double>);
}
template <>
const AttentionKernels<BFloat16>* AttentionAvx2<BFloat16>() {
  return INGOT_TABLE(Widened);
}
}  // namespace ingot::kernels::inner
