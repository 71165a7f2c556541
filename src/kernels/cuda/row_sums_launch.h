// Launches the CUDA kernel of row sums. Asynchronous: all memory must remain valid until the stream has executed it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/row_sums_args.h"

namespace ingot::kernels::cuda {

// T is float or double. 0 rows = nothing is launched; a row without numbers has the sum 0. Returns
// cudaErrorInvalidConfiguration for more than 2^31 blocks.
template <typename T>
cudaError_t LaunchRowSums(const RowSumsArgs<T>& args, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
