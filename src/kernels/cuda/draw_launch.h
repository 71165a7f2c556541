// Launches the CUDA draw kernels. Asynchronous: all memory must remain valid until the stream has executed them.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/draw_args.h"

namespace ingot::kernels::cuda {

// Draws from each row as Race does (kernels/draws/race.h). 0 rows = nothing is launched. Returns
// cudaErrorInvalidConfiguration for empty rows and rows of more than
// 2^30 entries.
cudaError_t LaunchDraw(const DrawArgs& args, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
