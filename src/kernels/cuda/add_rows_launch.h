// Launches the CUDA kernel that adds rows. Asynchronous: all memory must remain valid until the stream has executed it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/bfloat16.h"
#include "kernels/cuda/add_rows_args.h"

namespace ingot::kernels::cuda {

// T is float, double, or BFloat16. 0 rows or columns = nothing is launched. Returns cudaErrorInvalidConfiguration for
// more than 2^34 parts of rows.
template <typename T>
cudaError_t LaunchAddRows(const AddRowsArgs& args, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
