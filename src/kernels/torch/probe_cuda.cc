// Implements the probe in libingot_cuda.so.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <exception>

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

namespace {

// Reads torch's allocator, which has no statistics before the process's first tensor on a device.
void ReadAllocator(int32_t device, ingot::kernels::cuda::DeviceMemory& memory) {
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  auto* allocator = c10::cuda::CUDACachingAllocator::get();
  if (allocator == nullptr || !allocator->initialized()) return;
  const auto stats = allocator->getDeviceStats(static_cast<c10::DeviceIndex>(device));
  memory.allocated_bytes = stats.allocated_bytes[kAll].current;
  memory.reserved_bytes = stats.reserved_bytes[kAll].current;
}

}  // namespace

int32_t ingot_cuda_memory(int32_t device, ingot::kernels::cuda::DeviceMemory* memory) {
  *memory = {};
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) {
    cudaGetLastError();  // clears the error
    return static_cast<int32_t>(error);
  }
  memory->total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  std::snprintf(memory->pci_address, sizeof(memory->pci_address), "%08X:%02X:%02X.0", properties.pciDomainID,
                properties.pciBusID, properties.pciDeviceID);
  try {
    ReadAllocator(device, *memory);
  } catch (const std::exception&) {
    return static_cast<int32_t>(cudaErrorUnknown);
  }
  return 0;
}
