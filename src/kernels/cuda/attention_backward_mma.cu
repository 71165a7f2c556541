#include <initializer_list>

#include "kernels/cuda/attention_backward_mma.cuh"
#include "kernels/cuda/attention_launch_mma.h"

namespace ingot::kernels::cuda {
namespace {

bool Aligned(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) return false;
  }
  return true;
}

cudaError_t Launch(void (*kernel)(BackwardArgs<BFloat16>), int64_t blocks, int bytes,
                   const BackwardArgs<BFloat16>& args, cudaStream_t stream) {
  if (blocks == 0) return cudaSuccess;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  kernel<<<dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(args.shape.kv_heads)), kMmaThreads, bytes,
           stream>>>(args);
  return cudaGetLastError();
}

template <int kWidth>
cudaError_t LaunchAll(const BackwardArgs<BFloat16>& args, const BackwardCounts& counts, cudaStream_t stream) {
  cudaError_t error = Launch(GradQMmaKernel<kWidth>, counts.blocks, sizeof(GradQMemory<kWidth>), args, stream);
  if (error == cudaSuccess)
    error = Launch(GradKeysMmaKernel<kWidth>, counts.key_blocks, sizeof(GradKeysMemory<kWidth>), args, stream);
  if (error == cudaSuccess) error = Launch(KeySumMmaKernel, counts.key_sums, 0, args, stream);
  return error;
}

}  // namespace

cudaError_t LaunchBackwardMma(const BackwardArgs<BFloat16>& args, const BackwardCounts& counts, cudaStream_t stream) {
  if (!Aligned({args.q, args.k, args.v, args.grad_out, args.grad_q, args.sum_k, args.sum_v, args.partial})) {
    return cudaErrorInvalidValue;
  }
  return args.shape.head_dim <= 64 ? LaunchAll<64>(args, counts, stream) : LaunchAll<128>(args, counts, stream);
}

}  // namespace ingot::kernels::cuda
