// Arguments for the CUDA kernel that adds rows (add_rows.cuh): plain values and device pointers.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"

namespace ingot::kernels::cuda {

inline constexpr int kAddRowsThreads = 256;
inline constexpr int kAddRowsColumns = 128;  // of a warp

// sums[target] += rows[i], for each i with this target, in ascending order.
struct AddRowsArgs {
  const int64_t* targets;  // [count], sorted
  const int64_t* order;    // [count]: rows[order[j]] is added to sums[targets[j]]; ascending for equal targets
  const void* rows;        // [count, width]
  void* sums;              // [limit, width], of the type of the rows
  int64_t count, width, limit;

  // Returns the parts of a row.
  INGOT_HOST_DEVICE int64_t parts() const { return (width + kAddRowsColumns - 1) / kAddRowsColumns; }
  int64_t blocks() const { return (count * parts() * 32 + kAddRowsThreads - 1) / kAddRowsThreads; }
};

}  // namespace ingot::kernels::cuda
