// How many threads compute, as ATen has it: a number per calling thread.
#pragma once

#include "kernels/parallel_for.h"

namespace ingot::kernels {

// From here on so many threads compute for the calling thread, whatever others set for themselves.
void UseThreads(int threads);

// ParallelFor over at::parallel_for: as many threads as at::get_num_threads() says on the calling thread.
ParallelFor TorchParallelFor();

}  // namespace ingot::kernels
