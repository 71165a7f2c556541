// Lets a program that does not use CUDA get a report about this machine's devices from libingot_cuda.so. The interface
// is a plain struct with C linkage, so that a library from another build is detected instead of being misread.
#pragma once

#include <cstdint>

namespace ingot::kernels::cuda {

inline constexpr int32_t kProbeVersion = 2;
inline constexpr char kProbeSymbol[] = "ingot_cuda_probe";
inline constexpr char kMemorySymbol[] = "ingot_cuda_memory";

struct DeviceProbe {
  int32_t version = 0;          // the library's kProbeVersion, set first
  int32_t error = 0;            // cudaError_t from counting the devices; 0 = none
  int32_t runtime_version = 0;  // the library's CUDA version, 1000 * major + 10 * minor
  int32_t driver_version = 0;   // latest CUDA version that the driver supports; 0 = no driver
  int32_t device_count = 0;
  int32_t capability = 0;        // for device 0, 10 * major + minor
  int32_t least_capability = 0;  // minimum that the kernels need
  int32_t torch_devices = 0;     // number of devices that torch sees; 0 with device_count > 0 = torch cannot use them
  int64_t memory_bytes = 0;      // for device 0
  char error_text[256] = {};
  char name[256] = {};  // name of device 0
};

// One device's memory, and the part that this process uses.
struct DeviceMemory {
  int64_t total_bytes = 0;
  int64_t allocated_bytes = 0;  // used by tensors
  int64_t reserved_bytes = 0;   // held by torch's allocator, used by tensors or free for reuse
  char pci_address[32] = {};    // such as "00000000:3B:00.0"
};

}  // namespace ingot::kernels::cuda

// Fills in the probe without creating a CUDA context. Returns kProbeVersion.
extern "C" int32_t ingot_cuda_probe(ingot::kernels::cuda::DeviceProbe* probe);

// Fills in `memory` for the device with CUDA's number `device`, without creating a CUDA context. Returns a cudaError_t;
// 0 = no error. Thread safe.
extern "C" int32_t ingot_cuda_memory(int32_t device, ingot::kernels::cuda::DeviceMemory* memory);
