#include "kernels/cuda/gather_rows.cuh"
#include "kernels/cuda/launch.h"

namespace ingot::kernels::cuda {

template <typename T>
cudaError_t LaunchGatherRows(const GatherRowsArgs<T>& args, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  if (args.count > 0x7fffffff) return cudaErrorInvalidConfiguration;
  return Launch(GatherRowsKernel<T>, dim3(static_cast<unsigned>(args.count)), kGatherRowsThreads, 0, stream, args);
}

template cudaError_t LaunchGatherRows<float>(const GatherRowsArgs<float>&, cudaStream_t);
template cudaError_t LaunchGatherRows<double>(const GatherRowsArgs<double>&, cudaStream_t);
template cudaError_t LaunchGatherRows<BFloat16>(const GatherRowsArgs<BFloat16>&, cudaStream_t);

}  // namespace ingot::kernels::cuda
