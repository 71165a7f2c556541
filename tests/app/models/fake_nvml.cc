// A driver's management library without a driver. INGOT_FAKE_NVML is a comma-separated list: "old" = a CUDA 12 driver,
// "exclusive" and "prohibited" = the compute mode, "busy" = another process on the GPU, "crowd" = a hundred,
// "hidden" = the driver does not tell their memory, "unknown" = it does not know the GPU, "fails" = it does not start.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

bool Has(const char* word) {
  const char* mode = std::getenv("INGOT_FAKE_NVML");
  return mode != nullptr && std::strstr(mode, word) != nullptr;
}

struct Process {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};

int device = 0;

}  // namespace

extern "C" {

int nvmlInit_v2() { return Has("fails") ? 9 : 0; }
int nvmlShutdown() { return 0; }

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::strncpy(version, Has("old") ? "550.54.15" : "580.65.06", length);
  return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = Has("old") ? 12040 : 13000;
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** gpu) {
  *gpu = &device;
  return Has("unknown") || std::string(address) != "00000000:3B:00.0" ? 6 : 0;
}

int nvmlDeviceGetUtilizationRates(void*, unsigned* rates) {
  rates[0] = 75;
  rates[1] = 30;
  return 0;
}

int nvmlDeviceGetComputeMode(void*, int* mode) {
  *mode = Has("exclusive") ? 3 : Has("prohibited") ? 2 : 0;
  return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  const unsigned room = *count, others = Has("crowd") ? 100 : Has("busy") ? 1 : 0;
  *count = others + 1;
  if (room < *count) return 7;
  processes[0] = {static_cast<unsigned>(getpid()), 1 << 20, ~0u, ~0u};
  for (unsigned i = 0; i < others; ++i) processes[i + 1] = {4711 + i, Has("hidden") ? ~0ull : 60ull << 30, ~0u, ~0u};
  return 0;
}

}  // extern "C"
