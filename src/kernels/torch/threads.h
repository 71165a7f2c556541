// The number of computing threads, which ATen holds per calling thread.
#pragma once

#include "kernels/parallel_for.h"

namespace ingot::kernels {

// From here on `threads` threads compute for the calling thread, whatever other threads set for themselves.
void UseThreads(int threads);

// ParallelFor over at::parallel_for: as many threads as at::get_num_threads() says on the calling thread.
ParallelFor TorchParallelFor();

}  // namespace ingot::kernels
