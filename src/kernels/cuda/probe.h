// DeviceProbe is the report of libingot_cuda.so on this machine's devices, for a program that knows no CUDA. A plain
// struct under a C name: the library of another build is recognized instead of misread.
#pragma once

#include <cstdint>

namespace ingot::kernels::cuda {

inline constexpr int32_t kProbeVersion = 1;
inline constexpr char kProbeSymbol[] = "ingot_cuda_probe";

struct DeviceProbe {
  int32_t version = 0;          // kProbeVersion of the library, set first
  int32_t error = 0;            // cudaError_t of counting the devices; 0 = none
  int32_t runtime_version = 0;  // CUDA of the library, 1000 * major + 10 * minor
  int32_t driver_version = 0;   // greatest CUDA version that the driver knows; 0 = no driver
  int32_t device_count = 0;
  int32_t capability = 0;        // of device 0, 10 * major + minor
  int32_t least_capability = 0;  // that the kernels need
  int32_t torch_devices = 0;     // torch's count; 0 with device_count > 0 = torch cannot use them
  int64_t memory_bytes = 0;      // of device 0
  char error_text[256] = {};
  char name[256] = {};  // of device 0
};

}  // namespace ingot::kernels::cuda

// Fills in the probe without making a CUDA context. Returns kProbeVersion.
extern "C" int32_t ingot_cuda_probe(ingot::kernels::cuda::DeviceProbe* probe);
