// Implements the probe in libingot_cuda.so.
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <cstdio>

#include "kernels/cuda/probe.h"

int32_t ingot_cuda_probe(ingot::kernels::cuda::DeviceProbe* probe) {
  *probe = {};
  probe->version = ingot::kernels::cuda::kProbeVersion;
  probe->least_capability = 80;
  cudaRuntimeGetVersion(&probe->runtime_version);
  cudaDriverGetVersion(&probe->driver_version);
  const cudaError_t error = cudaGetDeviceCount(&probe->device_count);
  if (error != cudaSuccess) {
    probe->error = static_cast<int32_t>(error);
    std::snprintf(probe->error_text, sizeof(probe->error_text), "%s", cudaGetErrorString(error));
    probe->device_count = 0;
    cudaGetLastError();  // clears the error
    return probe->version;
  }
  if (probe->device_count == 0) return probe->version;
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) == cudaSuccess) {
    probe->capability = 10 * properties.major + properties.minor;
    probe->memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
    std::snprintf(probe->name, sizeof(probe->name), "%s", properties.name);
  }
  probe->torch_devices = c10::cuda::device_count();
  return probe->version;
}
