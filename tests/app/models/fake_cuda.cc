// A device library without a device, for device_test.cc and doctor_test.cc: it answers with INGOT_FAKE_PROBE.
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/probe.h"

int32_t ingot_cuda_probe(ingot::kernels::cuda::DeviceProbe* probe) {
  const char* mode = std::getenv("INGOT_FAKE_PROBE");
  *probe = {};
  probe->version = ingot::kernels::cuda::kProbeVersion;
  probe->runtime_version = 13000;
  probe->driver_version = 13010;
  probe->device_count = probe->torch_devices = std::strcmp(mode, "two") == 0 ? 2 : 1;
  probe->capability = std::strcmp(mode, "old") == 0 ? 70 : 90;
  probe->least_capability = 80;
  probe->memory_bytes = int64_t{80} << 30;
  std::strcpy(probe->name, "Fake Card");
  if (std::strcmp(mode, "driver") == 0) {
    probe->driver_version = 12040;
    probe->device_count = probe->torch_devices = 0;
    probe->error = 35;  // cudaErrorInsufficientDriver
    std::strcpy(probe->error_text, "CUDA driver version is insufficient for CUDA runtime version");
  }
  return std::strcmp(mode, "version") == 0 ? probe->version + 1 : probe->version;
}

int32_t ingot_cuda_memory(int32_t device, ingot::kernels::cuda::DeviceMemory* memory) {
  *memory = {};
  if (device > 1) return 101;  // cudaErrorInvalidDevice
  memory->total_bytes = int64_t{80} << 30;
  memory->allocated_bytes = int64_t{3} << 30;
  memory->reserved_bytes = int64_t{4} << 30;
  std::strcpy(memory->pci_address, device == 0 ? "00000000:3B:00.0" : "00000000:5E:00.0");
  return 0;
}
