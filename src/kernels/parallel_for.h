// Defines how kernels use threads. Kernels never start threads.
#pragma once

#include <cstdint>
#include <functional>

namespace ingot::kernels {

// Runs body(begin, end) over disjoint ranges that cover [0, count), on its owner's threads, and returns when all are
// done. Any thread may run any range, so a kernel's result must not depend on the thread.
using ParallelFor = std::function<void(int64_t count, const std::function<void(int64_t begin, int64_t end)>& body)>;

// Runs everything on the calling thread.
inline void Serial(int64_t count, const std::function<void(int64_t, int64_t)>& body) {
  if (count > 0) body(0, count);
}

}  // namespace ingot::kernels
