// Launches the attention kernel that uses tensor cores. Called by LaunchForward (attention_launch.h).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention_args.h"

namespace ingot::kernels::cuda {

// REQUIRES: UsesMma<BFloat16>(args.shape), a plan with kMmaRows rows per block, and at least one block. Returns
// cudaErrorInvalidValue unless q, k, v, and out are 16-byte aligned.
cudaError_t LaunchForwardMma(const ForwardArgs<BFloat16>& args, int64_t blocks, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
