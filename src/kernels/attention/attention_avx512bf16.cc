// Inner loops of bf16 attention for AVX512-BF16. Compiled with its flags, so nothing here may be called before the
// check in instruction_set.cc. fp32 and fp64 do not benefit from this set and use the avx512 loops.
#define INGOT_ISA avx512bf16
#define INGOT_ISA_NAME "avx512bf16"
#include "kernels/attention/attention_inner.h"

#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
#include "kernels/attention/attention_inner_impl.inc"
#define INGOT_TABLE &avx512bf16::kAttention<avx512bf16::Paired>
#else  // another architecture
#define INGOT_TABLE nullptr
#endif

namespace ingot::kernels::inner {
template <>
const AttentionKernels<BFloat16>* AttentionAvx512Bf16<BFloat16>() {
  return INGOT_TABLE;
}
}  // namespace ingot::kernels::inner
