// A device library without a device, for device_test.cc: it answers with INGOT_FAKE_PROBE.
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
  return std::strcmp(mode, "version") == 0 ? probe->version + 1 : probe->version;
}
