// The peer of GradQKernel and GradKeysKernel: the backward pass of CUTLASS's fused attention, like peer_forward.cu. Block sizes are those of
// the example, which are for widths up to 128.
#include "kernel_backward.h"

using Backward =
    AttentionBackwardKernel<cutlass::arch::Sm80, cutlass::bfloat16_t, true, false, true, 128, 128, 128, false, true>;
template __global__ void attention_kernel_backward_batched_impl<Backward>(Backward::Params);
