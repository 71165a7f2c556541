#include "app/models/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <limits>
#include <utility>

namespace ingot::app {
namespace {

constexpr char kNvmlVariable[] = "INGOT_NVML_LIBRARY";
constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";
constexpr int kSuccess = 0, kInsufficientSize = 7;  // nvmlReturn_t
constexpr int kModeProhibited = 2;                  // nvmlComputeMode_t; 1 and 3 are the exclusive modes

// The structs of NVML's binary interface, which its versioned symbols keep stable.
using Gpu = struct nvmlDevice_st*;
struct UtilizationRates {
  unsigned gpu, memory;  // percent
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;  // the largest value = unknown
  unsigned gpu_instance, compute_instance;
};

template <typename F>
bool Find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

struct Nvml::Functions {
  int (*start)();
  int (*stop)();
  int (*driver_version)(char*, unsigned);
  int (*cuda_version)(int*);
  int (*by_address)(const char*, Gpu*);
  int (*utilization)(Gpu, UtilizationRates*);
  int (*mode)(Gpu, int*);
  int (*processes)(Gpu, unsigned*, ProcessInfo*);

  bool FindAll(void* library) {
    return Find(library, "nvmlInit_v2", start) && Find(library, "nvmlShutdown", stop) &&
           Find(library, "nvmlSystemGetDriverVersion", driver_version) &&
           Find(library, "nvmlSystemGetCudaDriverVersion_v2", cuda_version) &&
           Find(library, "nvmlDeviceGetHandleByPciBusId_v2", by_address) &&
           Find(library, "nvmlDeviceGetUtilizationRates", utilization) &&
           Find(library, "nvmlDeviceGetComputeMode", mode) &&
           Find(library, "nvmlDeviceGetComputeRunningProcesses_v3", processes);
  }
  // Returns null if NVML does not know the GPU.
  Gpu At(const std::string& pci_address) const {
    Gpu gpu = nullptr;
    return by_address(pci_address.c_str(), &gpu) == kSuccess ? gpu : nullptr;
  }
};

Nvml::Nvml(void* library, std::unique_ptr<Functions> functions) : library_(library), functions_(std::move(functions)) {}

Nvml::~Nvml() {
  functions_->stop();
  ::dlclose(library_);
}

std::unique_ptr<Nvml> Nvml::Open() {
  const char* named = std::getenv(kNvmlVariable);
  void* library = ::dlopen(named == nullptr ? kNvmlLibrary : named, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto functions = std::make_unique<Functions>();
  if (!functions->FindAll(library) || functions->start() != kSuccess) {
    ::dlclose(library);
    return nullptr;
  }
  return std::unique_ptr<Nvml>(new Nvml(library, std::move(functions)));
}

DriverFacts Nvml::Driver() const {
  DriverFacts facts;
  std::array<char, 128> version = {};
  if (functions_->driver_version(version.data(), version.size() - 1) == kSuccess) facts.version = version.data();
  int cuda = 0;
  if (functions_->cuda_version(&cuda) == kSuccess) facts.cuda_version = cuda;
  return facts;
}

std::optional<double> Nvml::Utilization(const std::string& pci_address) const {
  const Gpu gpu = functions_->At(pci_address);
  UtilizationRates rates = {};
  if (gpu == nullptr || functions_->utilization(gpu, &rates) != kSuccess) return std::nullopt;
  return rates.gpu / 100.0;
}

std::optional<ComputeMode> Nvml::Mode(const std::string& pci_address) const {
  const Gpu gpu = functions_->At(pci_address);
  int mode = 0;
  if (gpu == nullptr || functions_->mode(gpu, &mode) != kSuccess) return std::nullopt;
  if (mode == 0) return ComputeMode::kShared;
  return mode == kModeProhibited ? ComputeMode::kProhibited : ComputeMode::kExclusive;
}

std::vector<GpuUser> Nvml::Users(const std::string& pci_address) const {
  const Gpu gpu = functions_->At(pci_address);
  if (gpu == nullptr) return {};
  std::vector<ProcessInfo> processes(64);
  auto count = static_cast<unsigned>(processes.size());
  int result = functions_->processes(gpu, &count, processes.data());
  if (result == kInsufficientSize) {
    processes.resize(count + 64);  // processes may start in between
    count = static_cast<unsigned>(processes.size());
    result = functions_->processes(gpu, &count, processes.data());
  }
  if (result != kSuccess) return {};
  processes.resize(count);
  std::vector<GpuUser> users;
  for (const ProcessInfo& process : processes) {
    if (process.pid == static_cast<unsigned>(::getpid())) continue;
    GpuUser user{process.pid, std::nullopt};
    if (process.used_memory != std::numeric_limits<unsigned long long>::max()) {
      user.memory_bytes = static_cast<int64_t>(process.used_memory);
    }
    users.push_back(user);
  }
  return users;
}

}  // namespace ingot::app
