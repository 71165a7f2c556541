// Counts this process's replays of CUDA graphs and the recordings that failed, for the gauges device/graph_replays and
// device/graph_failures. Plain C++.
#pragma once

#include <atomic>
#include <cstdint>

namespace ingot::kernels::cuda {

inline std::atomic<int64_t> graph_failures = 0, graph_replays = 0;

}  // namespace ingot::kernels::cuda
