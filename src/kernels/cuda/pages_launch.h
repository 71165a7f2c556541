// Launches the CUDA kernel that writes keys and values into pages. Asynchronous: all memory must remain valid until the
// stream has executed it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/pages_args.h"

namespace ingot::kernels::cuda {

// T is float, double, or BFloat16. No rows = nothing is launched. Returns cudaErrorInvalidConfiguration for more than
// 2^31 - 1 blocks. REQUIRES: rows that are written have different slots.
template <typename T>
cudaError_t LaunchPages(const PagesArgs<T>& args, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
