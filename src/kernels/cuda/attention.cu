#include "kernels/cuda/attention_backward.cuh"
#include "kernels/cuda/attention_forward.cuh"
#include "kernels/cuda/attention_launch.h"
#include "kernels/cuda/attention_launch_mma.h"

namespace ingot::kernels::cuda {
namespace {

dim3 Grid(int64_t blocks, const Shape& shape) {
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(shape.kv_heads),
          static_cast<unsigned>((shape.head_dim + kOutDims - 1) / kOutDims)};
}

}  // namespace

template <typename T>
cudaError_t LaunchForward(const ForwardArgs<T>& args, int64_t blocks, cudaStream_t stream) {
  if (blocks == 0) return cudaSuccess;
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (UsesMma<T>(args.shape)) return LaunchForwardMma(args, blocks, stream);
  }
  ForwardKernel<T><<<Grid(blocks, args.shape), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

namespace {

template <typename T>
cudaError_t LaunchGradients(const BackwardArgs<T>& args, const BackwardCounts& counts, cudaStream_t stream) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (UsesMma<T>(args.shape)) return LaunchBackwardMma(args, counts, stream);
  }
  if (counts.blocks > 0) {
    GradQKernel<T><<<Grid(counts.blocks, args.shape), kThreads, 0, stream>>>(args);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  if (counts.key_blocks > 0) GradKeysKernel<T><<<Grid(counts.key_blocks, args.shape), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

template <typename T>
cudaError_t LaunchBackward(const BackwardArgs<T>& args, const BackwardCounts& counts, cudaStream_t stream) {
  const int64_t entries = args.rows * args.shape.heads, per_block = kThreads / kLanes;
  if (entries > 0) {
    DeltaKernel<T><<<static_cast<unsigned>((entries + per_block - 1) / per_block), kThreads, 0, stream>>>(args);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  if (const cudaError_t error = LaunchGradients(args, counts, stream); error != cudaSuccess) return error;
  if (args.grad_sinks != nullptr) {
    GradSinksKernel<T><<<static_cast<unsigned>(args.shape.heads), kThreads, 0, stream>>>(args);
  }
  return cudaGetLastError();
}

#define INGOT_INSTANTIATE(T)                                                           \
  template cudaError_t LaunchForward<T>(const ForwardArgs<T>&, int64_t, cudaStream_t); \
  template cudaError_t LaunchBackward<T>(const BackwardArgs<T>&, const BackwardCounts&, cudaStream_t);
INGOT_INSTANTIATE(BFloat16)
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)

}  // namespace ingot::kernels::cuda
