// Launches the CUDA kernels that gather a tensor's changed elements. Asynchronous: all memory must remain valid until the
// stream has executed them.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/changes_args.h"

namespace ingot::kernels::cuda {

// Counts, then scans: `sizes` is [blocks() + 1] and becomes GatherChangesArgs::starts. Returns
// cudaErrorInvalidConfiguration for 2^32 elements or more. 0 elements = one total of 0.
cudaError_t LaunchCountChanges(const CountChangesArgs& args, cudaStream_t stream);

// Gathers `blocks` blocks. Element is uint16_t or uint32_t. 0 blocks = nothing is launched.
template <typename Element>
cudaError_t LaunchGatherChanges(const GatherChangesArgs& args, int64_t blocks, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
