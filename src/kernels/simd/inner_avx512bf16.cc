// Inner loops for bf16 on AVX512-BF16. Compiled with its flags, so nothing here may be called before the check in
// instruction_set.cc.
#define INGOT_ISA avx512bf16
#define INGOT_ISA_NAME "avx512bf16"
#include "kernels/simd/inner.h"

#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
#define INGOT_HALF Paired
#include "kernels/simd/inner_half_impl.inc"
#define INGOT_TABLE &avx512bf16::kHalfTable
#else  // another architecture
#define INGOT_TABLE nullptr
#endif

namespace ingot::kernels::inner {
template <>
const Kernels<BFloat16>* Avx512Bf16<BFloat16>() {
  return INGOT_TABLE;
}
}  // namespace ingot::kernels::inner
