// Launches the CUDA decode kernels. Asynchronous: all memory must remain valid until the stream has executed them.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/decode_args.h"

namespace ingot::kernels::cuda {

// `items` and args.query_count are the plan's counts; 0 = nothing is launched. Returns cudaErrorInvalidValue unless q, k,
// v, out, and partial are 16-byte aligned, and cudaErrorInvalidConfiguration for more than 65535 kv heads.
cudaError_t LaunchDecode(const DecodeArgs& args, int64_t items, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
