// Sets and uses the number of compute threads, which ATen stores per calling thread.
#pragma once

#include "kernels/parallel_for.h"

namespace ingot::kernels {

// Sets the number of threads that compute for the calling thread, regardless of other threads' settings.
void UseThreads(int threads);

// Returns a ParallelFor that runs loops on the calling thread's own Crew, with at::get_num_threads() threads. A nested
// loop runs on the thread that calls it.
ParallelFor TorchParallelFor();

}  // namespace ingot::kernels
