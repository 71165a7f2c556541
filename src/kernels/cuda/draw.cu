#include "kernels/cuda/draw.cuh"
#include "kernels/cuda/draw_launch.h"
#include "kernels/cuda/launch.h"

namespace ingot::kernels::cuda {

cudaError_t LaunchDraw(const DrawArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(args.rows), static_cast<unsigned>(args.parts()));
  const cudaError_t error = Launch(DrawKernel, grid, kDrawThreads, 0, stream, args);
  if (error != cudaSuccess) return error;
  return Launch(DrawWinnerKernel, dim3(static_cast<unsigned>(args.rows)), 32, 0, stream, args);
}

}  // namespace ingot::kernels::cuda
