// Counts the recordings of CUDA graphs that failed in this process, for the gauge device/graph_failures. Plain C++.
#pragma once

#include <atomic>
#include <cstdint>

namespace ingot::kernels::cuda {

inline std::atomic<int64_t> graph_failures = 0;

}  // namespace ingot::kernels::cuda
