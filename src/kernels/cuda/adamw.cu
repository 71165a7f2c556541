#include "kernels/cuda/adamw.cuh"
#include "kernels/cuda/adamw_launch.h"
#include "kernels/cuda/launch.h"

namespace ingot::kernels::cuda {

template <typename S>
cudaError_t LaunchAdamW(const AdamWArgs<S>& args, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  constexpr int64_t kOfBlock = kAdamWThreads * kAdamWEach;
  const int64_t blocks = (args.count + kOfBlock - 1) / kOfBlock;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  return Launch(AdamWKernel<S>, dim3(static_cast<unsigned>(blocks)), kAdamWThreads, 0, stream, args);
}

template cudaError_t LaunchAdamW<float>(const AdamWArgs<float>&, cudaStream_t);
template cudaError_t LaunchAdamW<double>(const AdamWArgs<double>&, cudaStream_t);

}  // namespace ingot::kernels::cuda
