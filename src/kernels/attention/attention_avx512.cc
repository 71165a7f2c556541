// Inner loops of attention for avx512. Compiled with avx512 flags, so nothing here may be called before the check in
// instruction_set.cc.
#define INGOT_ISA avx512
#define INGOT_ISA_NAME "avx512"
#include "kernels/attention/attention_inner.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include "kernels/attention/attention_inner_impl.inc"
#define INGOT_TABLE(P) &avx512::kAttention<avx512::P>
#else  // another architecture
#define INGOT_TABLE(P) nullptr
#endif

namespace ingot::kernels::inner {
template <>
const AttentionKernels<float>* AttentionAvx512<float>() {
  return INGOT_TABLE(Plain<float>);
}
template <>
const AttentionKernels<double>* AttentionAvx512<double>() {
  return INGOT_TABLE(Plain<double>);
}
template <>
const AttentionKernels<BFloat16>* AttentionAvx512<BFloat16>() {
  return INGOT_TABLE(Widened);
}
}  // namespace ingot::kernels::inner
