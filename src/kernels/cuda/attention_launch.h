// Launches the CUDA attention kernels. Asynchronous: all memory must remain valid until the stream has executed the
// kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention_args.h"

namespace ingot::kernels::cuda {

// The sizes of a plan: the grids of its kernels. 0 = that kernel is not launched.
struct BackwardCounts {
  int64_t blocks, key_blocks, key_sums;
};

// Defined for BFloat16, float, and double. Returns cudaErrorInvalidConfiguration for more than 65535 kv heads or a head
// of more than 8M columns. LaunchForward requires a plan with ForwardBlockRows rows per block, and LaunchBackward one
// with kTileRows, at most MostKeyBlocks blocks per key block, and fewer than 2^31 rows times heads. If UsesMma, they
// return cudaErrorInvalidValue unless the arrays of [.., head_dim] are 16-byte aligned.
template <typename T>
cudaError_t LaunchForward(const ForwardArgs<T>& args, int64_t blocks, cudaStream_t stream);
template <typename T>
cudaError_t LaunchBackward(const BackwardArgs<T>& args, const BackwardCounts& counts, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
