#include "kernels/cuda/add_rows.cuh"
#include "kernels/cuda/add_rows_launch.h"
#include "kernels/cuda/launch.h"

namespace ingot::kernels::cuda {

template <typename T>
cudaError_t LaunchAddRows(const AddRowsArgs& args, cudaStream_t stream) {
  if (args.count == 0 || args.width == 0) return cudaSuccess;
  if (args.blocks() > 0x7fffffff) return cudaErrorInvalidConfiguration;
  return Launch(AddRowsKernel<T>, dim3(static_cast<unsigned>(args.blocks())), kAddRowsThreads, 0, stream, args);
}

template cudaError_t LaunchAddRows<float>(const AddRowsArgs&, cudaStream_t);
template cudaError_t LaunchAddRows<double>(const AddRowsArgs&, cudaStream_t);
template cudaError_t LaunchAddRows<BFloat16>(const AddRowsArgs&, cudaStream_t);

}  // namespace ingot::kernels::cuda
