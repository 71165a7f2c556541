// Launches the CUDA attention kernels. Asynchronous: all memory must remain valid until the stream has executed the
// kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention_args.h"

namespace ingot::kernels::cuda {

// Defined for BFloat16, float, and double. `blocks` and `key_blocks` are the plan's counts; 0 = that kernel is not
// launched. Returns cudaErrorInvalidConfiguration for more than 65535 kv heads or a head of more than 8M columns.
// LaunchForward requires a plan with ForwardBlockRows rows per block. If UsesMma, it returns cudaErrorInvalidValue unless
// q, k, v, and out are 16-byte aligned.
template <typename T>
cudaError_t LaunchForward(const ForwardArgs<T>& args, int64_t blocks, cudaStream_t stream);
template <typename T>
cudaError_t LaunchBackward(const BackwardArgs<T>& args, int64_t blocks, int64_t key_blocks, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
