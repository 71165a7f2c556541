#include "kernels/cuda/attention_forward_mma.cuh"
#include "kernels/cuda/attention_launch_mma.h"

namespace ingot::kernels::cuda {
namespace {

bool Aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

template <int kWidth>
cudaError_t Launch(const ForwardArgs<BFloat16>& args, int64_t blocks, cudaStream_t stream) {
  constexpr int kBytes = sizeof(MmaMemory<kWidth>);
  const cudaError_t error =
      cudaFuncSetAttribute(ForwardMmaKernel<kWidth>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(args.shape.kv_heads));
  ForwardMmaKernel<kWidth><<<grid, kMmaThreads, kBytes, stream>>>(MakeMmaArgs(args));
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchForwardMma(const ForwardArgs<BFloat16>& args, int64_t blocks, cudaStream_t stream) {
  if (!Aligned(args.q) || !Aligned(args.k) || !Aligned(args.v) || !Aligned(args.out)) return cudaErrorInvalidValue;
  return args.shape.head_dim <= 64 ? Launch<64>(args, blocks, stream) : Launch<128>(args, blocks, stream);
}

}  // namespace ingot::kernels::cuda
