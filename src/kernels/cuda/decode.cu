#include "kernels/cuda/decode_attention.cuh"
#include "kernels/cuda/decode_launch.h"
#include "kernels/cuda/decode_merge.cuh"
#include "kernels/cuda/launch.h"

namespace ingot::kernels::cuda {

cudaError_t LaunchDecode(const DecodeArgs& args, int64_t items, cudaStream_t stream) {
  if (items == 0) return cudaSuccess;
  for (const void* pointer :
       {static_cast<const void*>(args.q), static_cast<const void*>(args.k), static_cast<const void*>(args.v),
        static_cast<const void*>(args.out), static_cast<const void*>(args.partial)}) {
    if (!Aligned(pointer)) return cudaErrorInvalidValue;
  }
  const dim3 grid(static_cast<unsigned>(items), static_cast<unsigned>(args.shape.kv_heads));
  const cudaError_t error =
      args.shape.head_dim <= 64
          ? Launch(DecodeMmaKernel<64>, grid, kMmaThreads, sizeof(DecodeMemory<64>), stream, args)
          : Launch(DecodeMmaKernel<128>, grid, kMmaThreads, sizeof(DecodeMemory<128>), stream, args);
  if (error != cudaSuccess) return error;
  constexpr int64_t kRows = kMmaThreads / 32;  // per block
  const int64_t blocks = (args.query_count * args.shape.heads + kRows - 1) / kRows;
  return Launch(DecodeMergeKernel, dim3(static_cast<unsigned>(blocks)), kMmaThreads, 0, stream, args);
}

}  // namespace ingot::kernels::cuda
