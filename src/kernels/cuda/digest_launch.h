// Launches the CUDA kernel that hashes a tensor's slices. Asynchronous: all memory must remain valid until the stream has
// executed it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/digest_args.h"

namespace ingot::kernels::cuda {

// 0 bytes = nothing is launched. Returns cudaErrorInvalidValue for a size or an address that the kernel does not support.
cudaError_t LaunchDigest(const DigestArgs& args, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
