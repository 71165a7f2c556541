// Compiled with OpenMP and without the precompiled headers. ATen's parallel_for is a header: without OpenMP's flag it
// runs on the calling thread alone.
#include <ATen/Parallel.h>

#include "kernels/torch/threads.h"

#ifndef INTRA_OP_PARALLEL
#error "kernels would run on one thread: compile this file with -fopenmp"
#endif

namespace ingot::kernels {

ParallelFor TorchParallelFor() {
  return [](int64_t count, const std::function<void(int64_t, int64_t)>& body) { at::parallel_for(0, count, 1, body); };
}

void UseThreads(int threads) {
  // ATen has two halves: the headers compiled here, and the library. At its first use on a thread each takes over the
  // number that any thread set last. So that first use must come before ours.
  at::internal::lazy_init_num_threads();
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
}

}  // namespace ingot::kernels
