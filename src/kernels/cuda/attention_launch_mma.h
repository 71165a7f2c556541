// Launches the attention kernels that use tensor cores. Called by LaunchForward and LaunchBackward (attention_launch.h).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention_args.h"
#include "kernels/cuda/attention_launch.h"

namespace ingot::kernels::cuda {

// REQUIRES: UsesMma<BFloat16>(args.shape), a plan with kMmaRows rows per block, and at least one block. Returns
// cudaErrorInvalidValue unless q, k, v, and out are 16-byte aligned.
cudaError_t LaunchForwardMma(const ForwardArgs<BFloat16>& args, int64_t blocks, cudaStream_t stream);

// The gradients of q, k, and v. REQUIRES: UsesMma<BFloat16>(args.shape), and delta as DeltaKernel computes it. Returns
// cudaErrorInvalidValue unless q, k, v, grad_out, grad_q, sum_k, sum_v, and partial are 16-byte aligned.
cudaError_t LaunchBackwardMma(const BackwardArgs<BFloat16>& args, const BackwardCounts& counts, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
