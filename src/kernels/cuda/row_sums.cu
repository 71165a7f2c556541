#include "kernels/cuda/launch.h"
#include "kernels/cuda/row_sums.cuh"
#include "kernels/cuda/row_sums_launch.h"

namespace ingot::kernels::cuda {
namespace {

template <typename T, int kLanes>
cudaError_t LaunchLanes(const RowSumsArgs<T>& args, cudaStream_t stream) {
  constexpr int64_t kRows = kRowSumsThreads / kLanes;
  const int64_t blocks = (args.rows + kRows - 1) / kRows;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  return Launch(RowSumsKernel<T, kLanes>, dim3(static_cast<unsigned>(blocks)), kRowSumsThreads, 0, stream, args);
}

}  // namespace

template <typename T>
cudaError_t LaunchRowSums(const RowSumsArgs<T>& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  return args.n <= kWarpRow ? LaunchLanes<T, 32>(args, stream) : LaunchLanes<T, kRowSumsThreads>(args, stream);
}

template cudaError_t LaunchRowSums<float>(const RowSumsArgs<float>&, cudaStream_t);
template cudaError_t LaunchRowSums<double>(const RowSumsArgs<double>&, cudaStream_t);

}  // namespace ingot::kernels::cuda
