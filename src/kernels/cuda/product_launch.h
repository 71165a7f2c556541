// Launches the CUDA kernels of linear layers. Asynchronous: all memory must remain valid until the stream has executed
// them.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/product_args.h"

namespace ingot::kernels::cuda {

// Defined for BFloat16, float, and double. 0 rows or columns = nothing is launched. Returns cudaErrorInvalidValue unless
// exactly one of y and wide is set, or if UsesMmaProduct and x or the weight is not 16-byte aligned, and
// cudaErrorInvalidConfiguration for more than 2^31 tiles.
template <typename T>
cudaError_t LaunchProduct(const ProductArgs<T>& args, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
