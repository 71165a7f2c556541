// Inner loops for the target's baseline, and the choice of an instruction set.
#define INGOT_ISA portable
#define INGOT_ISA_NAME "portable"
// The baseline does not depend on the build flags.
#include "kernels/simd/inner_impl.inc"
#define INGOT_HALF Widened
#include "kernels/simd/inner_half_impl.inc"

namespace ingot::kernels::inner {

template <>
const Kernels<float>* Portable<float>() {
  return &portable::kTable<float>;
}
template <>
const Kernels<double>* Portable<double>() {
  return &portable::kTable<double>;
}
template <>
const Kernels<BFloat16>* Portable<BFloat16>() {
  return &portable::kHalfTable;
}

}  // namespace ingot::kernels::inner
