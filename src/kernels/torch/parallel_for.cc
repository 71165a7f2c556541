// Compiled with OpenMP and without the precompiled headers: ATen's parallel_for is a header that runs on the calling
// thread alone where the compiler was not told of OpenMP.
#include <ATen/Parallel.h>

#include "kernels/torch/tree_attention.h"

#ifndef INTRA_OP_PARALLEL
#error "kernels would run on one thread: compile this file with -fopenmp"
#endif

namespace ingot::kernels {

ParallelFor TorchParallelFor() {
  return [](int64_t count, const std::function<void(int64_t, int64_t)>& body) { at::parallel_for(0, count, 1, body); };
}

}  // namespace ingot::kernels
