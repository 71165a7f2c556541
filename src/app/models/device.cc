#include "app/models/device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/log.h"

namespace ingot::app {
namespace {

using kernels::cuda::DeviceProbe;

constexpr char kLibrary[] = "libingot_cuda.so";
constexpr char kLibraryVariable[] = "INGOT_CUDA_LIBRARY";

std::string Gigabytes(int64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }
std::string Capability(int32_t capability) { return absl::StrCat("sm_", capability); }

absl::StatusOr<std::string> FindLibrary(const std::string& named) {
  if (!named.empty()) {
    if (::access(named.c_str(), R_OK) == 0) return named;
    return absl::UnimplementedError(absl::StrCat(kLibraryVariable, " names '", named, "', which cannot be read"));
  }
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<std::string> tried;
  for (const std::filesystem::path& path : {folder / kLibrary, folder / ".." / "lib" / kLibrary}) {
    if (std::filesystem::exists(path, error)) return path.string();
    tried.push_back(path.string());
  }
  return absl::UnimplementedError(absl::StrCat("this build has only the CPU kernels: it found neither ", tried[0],
                                               " nor ", tried[1], " (build it with `make cuda`, or name it in ",
                                               kLibraryVariable, ")"));
}

absl::StatusOr<DeviceProbe> ProbeLibrary(const std::string& path, void*& library) {
  library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return absl::UnavailableError(absl::StrCat("cannot open ", path, ": ", why == nullptr ? "no reason given" : why,
                                               " (it needs the CUDA build of torch 2.11 with the libraries that pip "
                                               "installs with it)"));
  }
  void* symbol = ::dlsym(library, kernels::cuda::kProbeSymbol);
  if (symbol == nullptr) {
    return absl::UnavailableError(
        absl::StrCat(path, " is not Ingot's device library: it has no symbol ", kernels::cuda::kProbeSymbol));
  }
  DeviceProbe probe;
  const int32_t version = reinterpret_cast<decltype(&ingot_cuda_probe)>(symbol)(&probe);
  if (version != kernels::cuda::kProbeVersion) {
    return absl::UnavailableError(absl::StrCat(path, " belongs to another build of Ingot (probe version ", version,
                                               ", this program's is ", kernels::cuda::kProbeVersion,
                                               "): build both together"));
  }
  return probe;
}

// Returns null if the library lacks the function.
DeviceWatch::ReadMemory ReadMemoryOf(void* library) {
  return reinterpret_cast<DeviceWatch::ReadMemory>(::dlsym(library, kernels::cuda::kMemorySymbol));
}

// Finds the other processes on the device. Fails if its compute mode prevents this process from using it.
absl::Status LookForUsers(const Nvml& nvml, int device, const std::string& name, DeviceChoice& choice) {
  kernels::cuda::DeviceMemory memory;
  const DeviceWatch::ReadMemory read = ReadMemoryOf(choice.library);
  if (read == nullptr || read(device, &memory) != 0) return absl::OkStatus();
  choice.users = nvml.Users(memory.pci_address);
  return JudgeMode(nvml.Mode(memory.pci_address).value_or(ComputeMode::kShared), choice.users, name);
}

std::string Describe(const DeviceProbe& probe, const DriverFacts& driver, const DeviceChoice& choice) {
  const std::string version = driver.version.empty() ? "" : absl::StrCat(driver.version, ", ");
  const std::string users = ShowUsers(choice.users);
  return absl::StrCat(probe.name, ", ", Capability(probe.capability), ", ", Gigabytes(probe.memory_bytes), ", CUDA ",
                      CudaVersion(probe.runtime_version), " (driver ", version, CudaVersion(probe.driver_version), ")",
                      users.empty() ? "" : "; ", users);
}

absl::StatusOr<DeviceChoice> OpenCuda(const std::string& library, int place) {
  INGOT_ASSIGN_OR_RETURN(const std::string path, FindLibrary(library));
  DeviceChoice choice;
  INGOT_ASSIGN_OR_RETURN(const DeviceProbe probe, ProbeLibrary(path, choice.library));
  const std::unique_ptr<Nvml> nvml = Nvml::Open();
  const DriverFacts driver = nvml == nullptr ? DriverFacts() : nvml->Driver();
  INGOT_RETURN_IF_ERROR(base::Annotate(JudgeProbe(probe, driver), path));
  choice.devices = probe.device_count;
  const int device = place % probe.device_count;
  choice.torch_name = absl::StrCat("cuda:", device);
  if (nvml != nullptr) {
    const std::string name = absl::StrCat(choice.torch_name, ", ", probe.name);
    INGOT_RETURN_IF_ERROR(LookForUsers(*nvml, device, name, choice));
  }
  choice.description = Describe(probe, driver, choice);
  return choice;
}

}  // namespace

int LeastDriver(int32_t cuda_version) { return cuda_version >= 13000 ? 580 : 525; }

std::string CudaVersion(int32_t version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

std::string ShowUsers(const std::vector<GpuUser>& users) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(users.size(), kShown); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", "process ", users[i].pid, " uses ",
                    users[i].memory_bytes.has_value() ? Gigabytes(*users[i].memory_bytes) : "it");
  }
  if (users.size() > kShown) absl::StrAppend(&text, ", and ", users.size() - kShown, " more processes");
  return text;
}

absl::Status JudgeMode(ComputeMode mode, const std::vector<GpuUser>& users, const std::string& name) {
  if (mode == ComputeMode::kProhibited) {
    return absl::UnavailableError(absl::StrCat("the driver allows no process to compute on ", name,
                                               " (compute mode PROHIBITED): run `nvidia-smi -c DEFAULT` as root"));
  }
  if (mode == ComputeMode::kShared || users.empty()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      name, ", accepts one process at a time (compute mode EXCLUSIVE_PROCESS), and ", ShowUsers(users),
      ": end that process, choose another device with CUDA_VISIBLE_DEVICES, or run `nvidia-smi -c DEFAULT` as root"));
}

absl::Status JudgeProbe(const DeviceProbe& probe, const DriverFacts& driver) {
  constexpr int32_t kNoDevice = 100;  // cudaErrorNoDevice
  const std::string needs = absl::StrCat("CUDA ", CudaVersion(probe.runtime_version), ", which needs driver ",
                                         LeastDriver(probe.runtime_version), " or newer");
  if (probe.driver_version == 0) {
    return absl::UnavailableError(absl::StrCat("this machine has no NVIDIA driver; the library uses ", needs));
  }
  if (probe.driver_version < probe.runtime_version && probe.error != 0) {
    return absl::UnavailableError(absl::StrCat(
        "the NVIDIA driver", driver.version.empty() ? "" : " ", driver.version, " supports CUDA ",
        CudaVersion(probe.driver_version), ", but the library uses ", needs, " (", probe.error_text,
        "): update the driver; \"Older drivers\" in docs/guide/gpu.md has what this machine can do without an update"));
  }
  if (probe.error != 0 && probe.error != kNoDevice) {
    return absl::UnavailableError(
        absl::StrCat("CUDA failed to start: ", probe.error_text, " (error ", probe.error, ")"));
  }
  if (probe.device_count == 0) {
    return absl::UnavailableError("the driver shows no CUDA device (CUDA_VISIBLE_DEVICES may hide it)");
  }
  if (probe.capability < probe.least_capability) {
    return absl::UnavailableError(absl::StrCat("device 0, ", probe.name, ", is ", Capability(probe.capability),
                                               "; the kernels need ", Capability(probe.least_capability), " or newer"));
  }
  if (probe.torch_devices == 0) {
    return absl::UnavailableError(
        absl::StrCat("CUDA shows ", probe.device_count, " devices, but torch can use none of them"));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, const std::string& library, int place) {
  DeviceChoice cpu;
  if (configured == "cpu") return cpu;
  absl::StatusOr<DeviceChoice> cuda = OpenCuda(library, place);
  if (cuda.ok()) return cuda;
  if (configured == "cuda") {
    return absl::Status(cuda.status().code(),
                        absl::StrCat("device is cuda, but ", cuda.status().message(),
                                     "; use device=cpu, or device=auto to use the CPU if there is no CUDA"));
  }
  cpu.fell_back = true;
  cpu.warns = !absl::IsUnimplemented(cuda.status());  // a build without CUDA is no news
  cpu.description = std::string(cuda.status().message());
  return cpu;
}

absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, int place) {
  const char* named = std::getenv(kLibraryVariable);
  return OpenDevice(configured, named == nullptr ? "" : named, place);
}

std::optional<int64_t> MemoryWithoutOthers(const DeviceChoice& choice, int device) {
  kernels::cuda::DeviceMemory memory;
  const DeviceWatch::ReadMemory read = ReadMemoryOf(choice.library);
  if (read == nullptr || read(device, &memory) != 0) return std::nullopt;
  int64_t left = memory.total_bytes;
  const std::unique_ptr<Nvml> nvml = Nvml::Open();
  if (nvml == nullptr) return left;
  for (const GpuUser& user : nvml->Users(memory.pci_address)) left -= user.memory_bytes.value_or(0);
  return left;
}

std::unique_ptr<DeviceWatch> ReportDevice(const DeviceChoice& choice, base::Metrics& metrics) {
  const char* why = choice.fell_back ? "auto: " : "";
  const std::string shown =
      absl::StrCat("device ", why, choice.torch_name, choice.description.empty() ? "" : ", ", choice.description);
  choice.warns ? INGOT_LOG(warn, "{}", shown) : INGOT_LOG(info, "{}", shown);
  metrics.GetGauge("device/fallback", "1 if device auto chose the CPU because CUDA is missing").Set(choice.fell_back);
  const DeviceWatch::ReadMemory read = choice.library == nullptr ? nullptr : ReadMemoryOf(choice.library);
  if (choice.torch_name == "cpu" || read == nullptr) return nullptr;
  const int device = std::stoi(choice.torch_name.substr(choice.torch_name.find(':') + 1));
  return std::make_unique<DeviceWatch>(read, device, Nvml::Open(), metrics);
}

}  // namespace ingot::app
