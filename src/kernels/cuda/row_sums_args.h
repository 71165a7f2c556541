// Arguments for the CUDA kernel of row sums (row_sums.cuh): plain values and device pointers.
#pragma once

#include <cstdint>

namespace ingot::kernels::cuda {

inline constexpr int kRowSumsThreads = 256;
inline constexpr int64_t kWarpRow = 1024;  // the longest row that one warp adds

template <typename T>
struct RowSumsArgs {
  const T* x;  // [rows, n]
  T* sums;     // [rows]
  int64_t rows, n;
};

}  // namespace ingot::kernels::cuda
