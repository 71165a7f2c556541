// The peer of ForwardKernel: CUTLASS's fused attention (example 41 of the package nvidia-cutlass), which sass_report.py compiles from where it
// is installed. Block sizes are those that the example takes for these widths.
#include "kernel_forward.h"

namespace {
template <int kRows, int kKeys, int kWidth>
using Forward = AttentionKernel<cutlass::bfloat16_t, cutlass::arch::Sm80, true, kRows, kKeys, kWidth, false, false>;
}  // namespace

template __global__ void attention_kernel_batched_impl<Forward<64, 64, 64>>(Forward<64, 64, 64>::Params);
template __global__ void attention_kernel_batched_impl<Forward<32, 128, 128>>(Forward<32, 128, 128>::Params);
