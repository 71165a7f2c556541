#pragma once

// Loads the library that runs torch's CUDA operators on the CPU (operators/operators.cc), once libtorch_cuda.so is there. It lies beside the
// runtime. Does nothing in a process without torch.
namespace ingot::standin {

void LoadOperators();

}  // namespace ingot::standin
