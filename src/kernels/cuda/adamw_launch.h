// Launches the CUDA kernel of AdamW. Asynchronous: all memory must remain valid until the stream has executed it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/adamw_args.h"

namespace ingot::kernels::cuda {

// S is float or double. 0 numbers = nothing is launched. Returns cudaErrorInvalidConfiguration for more than 2^41.
template <typename S>
cudaError_t LaunchAdamW(const AdamWArgs<S>& args, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
