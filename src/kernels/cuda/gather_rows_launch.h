// Launches the CUDA kernel that gathers rows (gather_rows.cuh). Asynchronous: all memory must remain valid until the
// stream has executed it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/bfloat16.h"

namespace ingot::kernels::cuda {

inline constexpr int kGatherRowsThreads = 256;

// rows[i] = table[ids[i]]. All arrays are dense.
template <typename T>
struct GatherRowsArgs {
  const T* table;      // [limit, width]
  const int64_t* ids;  // [count]
  T* rows;             // [count, width]
  int64_t count, width, limit;
};

// T is float, double, or BFloat16. No rows = nothing is launched.
template <typename T>
cudaError_t LaunchGatherRows(const GatherRowsArgs<T>& args, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
