#include "kernels/cuda/changes.cuh"
#include "kernels/cuda/changes_launch.h"
#include "kernels/cuda/launch.h"

namespace ingot::kernels::cuda {

cudaError_t LaunchCountChanges(const CountChangesArgs& args, cudaStream_t stream) {
  if (args.marks.count < 0 || args.marks.count > 0xffffffffLL) return cudaErrorInvalidConfiguration;
  const int64_t blocks = args.marks.blocks();
  if (blocks > 0) {
    const cudaError_t error =
        Launch(CountChangesKernel, dim3(static_cast<unsigned>(blocks)), kChangesThreads, 0, stream, args);
    if (error != cudaSuccess) return error;
  }
  return Launch(ScanChangesKernel, dim3(1), kChangesScanThreads, 0, stream, ScanChangesArgs{args.sizes, blocks});
}

template <typename Element>
cudaError_t LaunchGatherChanges(const GatherChangesArgs& args, int64_t blocks, cudaStream_t stream) {
  if (blocks == 0) return cudaSuccess;
  if (args.first < 0 || blocks < 0 || args.first + blocks > args.marks.blocks()) return cudaErrorInvalidValue;
  return Launch(GatherChangesKernel<Element>, dim3(static_cast<unsigned>(blocks)), kChangesThreads, 0, stream, args);
}

template cudaError_t LaunchGatherChanges<uint16_t>(const GatherChangesArgs&, int64_t, cudaStream_t);
template cudaError_t LaunchGatherChanges<uint32_t>(const GatherChangesArgs&, int64_t, cudaStream_t);

}  // namespace ingot::kernels::cuda
