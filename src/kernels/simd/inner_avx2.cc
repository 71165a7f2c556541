// Inner loops for avx2. Compiled with avx2 flags, so nothing here may be called before the check below.
#define INGOT_ISA avx2
#define INGOT_ISA_NAME "avx2"
#include "kernels/simd/inner.h"

#if defined(__AVX2__) && defined(__FMA__)
#include "kernels/simd/inner_impl.inc"
#define INGOT_HALF Widened
#include "kernels/simd/inner_half_impl.inc"

namespace ingot::kernels::inner {
template <>
const Kernels<float>* Avx2<float>() {
  return &avx2::kTable<float>;
}
template <>
const Kernels<double>* Avx2<double>() {
  return &avx2::kTable<double>;
}
template <>
const Kernels<BFloat16>* Avx2<BFloat16>() {
  return &avx2::kHalfTable;
}
}  // namespace ingot::kernels::inner

#else  // another architecture

namespace ingot::kernels::inner {
template <>
const Kernels<float>* Avx2<float>() {
  return nullptr;
}
template <>
const Kernels<double>* Avx2<double>() {
  return nullptr;
}
template <>
const Kernels<BFloat16>* Avx2<BFloat16>() {
  return nullptr;
}
}  // namespace ingot::kernels::inner

#endif
