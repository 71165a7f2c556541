#include "kernels/cuda/launch.h"
#include "kernels/cuda/pages.cuh"
#include "kernels/cuda/pages_launch.h"

namespace ingot::kernels::cuda {

template <typename T>
cudaError_t LaunchPages(const PagesArgs<T>& args, cudaStream_t stream) {
  const int64_t blocks = args.blocks();
  if (blocks == 0) return cudaSuccess;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  return Launch(PagesKernel<T>, dim3(static_cast<unsigned>(blocks)), kPagesThreads, 0, stream, args);
}

template cudaError_t LaunchPages<float>(const PagesArgs<float>&, cudaStream_t);
template cudaError_t LaunchPages<double>(const PagesArgs<double>&, cudaStream_t);
template cudaError_t LaunchPages<BFloat16>(const PagesArgs<BFloat16>&, cudaStream_t);

}  // namespace ingot::kernels::cuda
