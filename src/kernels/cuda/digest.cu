#include "kernels/cuda/digest.cuh"
#include "kernels/cuda/digest_launch.h"
#include "kernels/cuda/launch.h"

namespace ingot::kernels::cuda {

cudaError_t LaunchDigest(const DigestArgs& args, cudaStream_t stream) {
  if (args.size < 0 || args.size % 2 != 0 || reinterpret_cast<uintptr_t>(args.bytes) % 8 != 0) {
    return cudaErrorInvalidValue;
  }
  if (args.size == 0) return cudaSuccess;
  constexpr int64_t kWarps = kDigestThreads / 32;
  const int64_t blocks = (args.slices() + kWarps - 1) / kWarps;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  return Launch(DigestKernel, dim3(static_cast<unsigned>(blocks)), kDigestThreads, 0, stream, args);
}

}  // namespace ingot::kernels::cuda
