// How kernels use threads: they are given a ParallelFor and never start a thread of their own.
#pragma once

#include <cstdint>
#include <functional>

namespace ingot::kernels {

// Runs body(begin, end) over disjoint chunks that cover [0, count), on as many threads as its owner was given, and
// returns when all are done. Which thread runs which chunk is not fixed; a kernel's result must not depend on it.
using ParallelFor = std::function<void(int64_t count, const std::function<void(int64_t begin, int64_t end)>& body)>;

// Everything on the calling thread.
inline void Serial(int64_t count, const std::function<void(int64_t, int64_t)>& body) {
  if (count > 0) body(0, count);
}

}  // namespace ingot::kernels
