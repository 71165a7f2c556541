// How many blocks of a kernel a multiprocessor holds, by the calculator of the CUDA toolkit's own header.
#include <cuda_occupancy.h>

#include "standin/runtime/device.h"
#include "standin/runtime/kernels.h"
#include "standin/runtime/settings.h"

using namespace ingot::standin;

namespace {

constexpr int kPortableClusterBlocks = 8;
// A cluster lies in one GPC. An H100's GPCs have 16 or 18 multiprocessors; the others are not counted.
constexpr int kClusterMultiprocessors = 16;

cudaOccDeviceProp Device() {
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, CurrentDevice());
  return properties;
}

cudaError_t Attributes(const void* host, cudaOccFuncAttributes& attributes) {
  cudaFuncAttributes found;
  const cudaError_t error = cudaFuncGetAttributes(&found, host);
  attributes = found;
  return error;
}

cudaError_t Translated(cudaOccError error, const char* call) {
  if (error == CUDA_OCC_SUCCESS) return cudaSuccess;
  return Fail(cudaErrorInvalidValue, "%s of more blocks than fit, or of an unknown device sm_%d", call,
              GetSettings().capability);
}

int ClusterBlocks(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const auto& attribute = config.attrs[i];
    const auto& size = attribute.val.clusterDim;
    if (attribute.id == cudaLaunchAttributeClusterDimension) return static_cast<int>(size.x * size.y * size.z);
  }
  return 1;
}

cudaError_t ResidentBlocks(const cudaLaunchConfig_t& config, const void* host, int& blocks) {
  if (GetSettings().capability < 90) return Fail(cudaErrorNotSupported, "clusters need sm_90");
  const auto threads = static_cast<int>(config.blockDim.x * config.blockDim.y * config.blockDim.z);
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, host, threads, config.dynamicSmemBytes);
}

}  // namespace

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host, int threads,
                                                                   size_t dynamic, unsigned) {
  *blocks = 0;
  if (threads <= 0) return Fail(cudaErrorInvalidValue, "occupancy of blocks of %d threads", threads);
  cudaOccFuncAttributes attributes;
  if (const cudaError_t error = Attributes(host, attributes); error != cudaSuccess) return error;
  if (threads > attributes.maxThreadsPerBlock) return cudaSuccess;  // no launch of it succeeds
  const cudaOccDeviceProp device = Device();
  const cudaOccDeviceState state;
  cudaOccResult result;
  const cudaOccError error =
      cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &attributes, &state, threads, dynamic);
  if (error == CUDA_OCC_SUCCESS) *blocks = result.activeBlocksPerMultiprocessor;
  return Translated(error, "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int threads, size_t dynamic) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, dynamic, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamic, const void* host, int blocks, int threads) {
  *dynamic = 0;
  cudaOccFuncAttributes attributes;
  if (const cudaError_t error = Attributes(host, attributes); error != cudaSuccess) return error;
  const cudaOccDeviceProp device = Device();
  const cudaOccDeviceState state;
  return Translated(cudaOccAvailableDynamicSMemPerBlock(dynamic, &device, &attributes, &state, blocks, threads),
                    "cudaOccupancyAvailableDynamicSMemPerBlock");
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* host, const cudaLaunchConfig_t* config) {
  int blocks = 0;
  const cudaError_t error = ResidentBlocks(*config, host, blocks);
  *size = error == cudaSuccess && blocks > 0 ? kPortableClusterBlocks : 0;
  return error;
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* host, const cudaLaunchConfig_t* config) {
  *clusters = 0;
  const int size = ClusterBlocks(*config);
  if (size < 1 || size > kPortableClusterBlocks) {
    return Fail(cudaErrorInvalidClusterSize, "clusters of %d blocks", size);
  }
  int blocks = 0;
  const cudaError_t error = ResidentBlocks(*config, host, blocks);
  *clusters = CurrentModel().multiprocessors / kClusterMultiprocessors * (kClusterMultiprocessors * blocks / size);
  return error;
}
