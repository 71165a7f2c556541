#include "kernels/cuda/launch.h"
#include "kernels/cuda/layers_launch.h"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/rotate.cuh"
#include "kernels/cuda/swiglu.cuh"

namespace ingot::kernels::cuda {
namespace {

template <typename Args>
cudaError_t LaunchBlocks(void (*kernel)(Args), int64_t blocks, unsigned threads, size_t shared_bytes,
                         cudaStream_t stream, const Args& args) {
  if (blocks == 0) return cudaSuccess;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  return Launch(kernel, dim3(static_cast<unsigned>(blocks)), threads, shared_bytes, stream, args);
}

template <typename T>
cudaError_t LaunchSumParts(const SumPartsArgs<T>& args, cudaStream_t stream) {
  return LaunchBlocks(SumPartsKernel<T>, Ceil(args.n, 32), kSumThreads, 0, stream, args);
}

}  // namespace

template <typename T>
cudaError_t LaunchNorm(const NormArgs<T>& args, cudaStream_t stream) {
  return LaunchBlocks(NormKernel<T>, args.n == 0 ? 0 : args.rows, NormThreads<T>(args.n), 0, stream, args);
}

template <typename T>
cudaError_t LaunchNormGradient(const NormGradientArgs<T>& args, T* grad_weight, cudaStream_t stream) {
  const int64_t blocks = args.blocks();
  const cudaError_t error =
      LaunchBlocks(NormGradientKernel<T>, args.n == 0 ? 0 : blocks, NormThreads<T>(args.n), 0, stream, args);
  if (error != cudaSuccess) return error;
  return LaunchSumParts<T>({blocks, args.n, args.parts, grad_weight}, stream);
}

template <typename T>
cudaError_t LaunchHeads(const HeadArgs<T>& args, cudaStream_t stream) {
  return LaunchBlocks(HeadKernel<T>, args.blocks(), kHeadThreads, 0, stream, args);
}

template <typename T>
cudaError_t LaunchHeadGradient(const HeadGradientArgs<T>& args, T* grad_weight, cudaStream_t stream) {
  const int64_t blocks = args.blocks();
  const cudaError_t error =
      LaunchBlocks(HeadGradientKernel<T>, blocks, kHeadThreads, args.shared_bytes(), stream, args);
  if (error != cudaSuccess || args.weight == nullptr) return error;
  return LaunchSumParts<T>({blocks, args.depth, args.parts, grad_weight}, stream);
}

template <typename T>
cudaError_t LaunchSwiGlu(const SwiGluArgs<T>& args, cudaStream_t stream) {
  return LaunchBlocks(SwiGluKernel<T>, args.blocks(), kSwiGluThreads, 0, stream, args);
}

template <typename T>
cudaError_t LaunchSwiGluGradient(const SwiGluGradientArgs<T>& args, cudaStream_t stream) {
  return LaunchBlocks(SwiGluGradientKernel<T>, args.blocks(), kSwiGluThreads, 0, stream, args);
}

#define INGOT_INSTANTIATE(T)                                                                \
  template cudaError_t LaunchNorm<T>(const NormArgs<T>&, cudaStream_t);                     \
  template cudaError_t LaunchNormGradient<T>(const NormGradientArgs<T>&, T*, cudaStream_t); \
  template cudaError_t LaunchHeads<T>(const HeadArgs<T>&, cudaStream_t);                    \
  template cudaError_t LaunchHeadGradient<T>(const HeadGradientArgs<T>&, T*, cudaStream_t); \
  template cudaError_t LaunchSwiGlu<T>(const SwiGluArgs<T>&, cudaStream_t);                 \
  template cudaError_t LaunchSwiGluGradient<T>(const SwiGluGradientArgs<T>&, cudaStream_t);
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)
INGOT_INSTANTIATE(BFloat16)

}  // namespace ingot::kernels::cuda
