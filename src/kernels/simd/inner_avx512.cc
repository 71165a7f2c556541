// Inner loops for avx512. Compiled with avx512 flags, so nothing here may be called before the check below.
#define INGOT_ISA avx512
#define INGOT_ISA_NAME "avx512"
#include "kernels/simd/inner.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include "kernels/simd/inner_impl.inc"
#define INGOT_HALF Widened
#include "kernels/simd/inner_half_impl.inc"

namespace ingot::kernels::inner {
template <>
const Kernels<float>* Avx512<float>() {
  return &avx512::kTable<float>;
}
template <>
const Kernels<double>* Avx512<double>() {
  return &avx512::kTable<double>;
}
template <>
const Kernels<BFloat16>* Avx512<BFloat16>() {
  return &avx512::kHalfTable;
}
}  // namespace ingot::kernels::inner

#else  // another architecture

namespace ingot::kernels::inner {
template <>
const Kernels<float>* Avx512<float>() {
  return nullptr;
}
template <>
const Kernels<double>* Avx512<double>() {
  return nullptr;
}
template <>
const Kernels<BFloat16>* Avx512<BFloat16>() {
  return nullptr;
}
}  // namespace ingot::kernels::inner

#endif
