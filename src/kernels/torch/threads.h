// The number of computing threads, which ATen holds per calling thread.
#pragma once

#include "kernels/parallel_for.h"

namespace ingot::kernels {

// From here on `threads` threads compute for the calling thread, independent of other threads' settings.
void UseThreads(int threads);

// Runs loops on the calling thread's own Crew, of as many threads as at::get_num_threads() says there. A loop within a
// loop runs on the thread that calls it.
ParallelFor TorchParallelFor();

}  // namespace ingot::kernels
