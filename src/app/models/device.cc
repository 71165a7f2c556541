#include "app/models/device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/log.h"

namespace ingot::app {
namespace {

using kernels::cuda::DeviceProbe;

constexpr char kLibrary[] = "libingot_cuda.so";
constexpr char kLibraryVariable[] = "INGOT_CUDA_LIBRARY";

std::string CudaVersion(int32_t version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }
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

absl::StatusOr<DeviceChoice> OpenCuda(const std::string& library, int place) {
  INGOT_ASSIGN_OR_RETURN(const std::string path, FindLibrary(library));
  DeviceChoice choice;
  INGOT_ASSIGN_OR_RETURN(const DeviceProbe probe, ProbeLibrary(path, choice.library));
  INGOT_RETURN_IF_ERROR(base::Annotate(JudgeProbe(probe), path));
  choice.devices = probe.device_count;
  choice.torch_name = absl::StrCat("cuda:", place % probe.device_count);
  choice.description = fmt::format("{}, {}, {:.1f} GiB, CUDA {} (driver {})", probe.name, Capability(probe.capability),
                                   static_cast<double>(probe.memory_bytes) / (1 << 30),
                                   CudaVersion(probe.runtime_version), CudaVersion(probe.driver_version));
  return choice;
}

}  // namespace

absl::Status JudgeProbe(const DeviceProbe& probe) {
  constexpr int32_t kNoDevice = 100;  // cudaErrorNoDevice
  if (probe.driver_version == 0) {
    return absl::UnavailableError("this machine has no NVIDIA driver");
  }
  if (probe.driver_version < probe.runtime_version && probe.error != 0) {
    return absl::UnavailableError(absl::StrCat("the driver knows CUDA ", CudaVersion(probe.driver_version),
                                               ", but the library was built with ", CudaVersion(probe.runtime_version),
                                               ": update the driver (", probe.error_text, ")"));
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
  cpu.description = std::string(cuda.status().message());
  return cpu;
}

absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, int place) {
  const char* named = std::getenv(kLibraryVariable);
  return OpenDevice(configured, named == nullptr ? "" : named, place);
}

void ReportDevice(const DeviceChoice& choice, base::Metrics& metrics) {
  const char* why = choice.fell_back ? "auto: " : "";
  INGOT_LOG(info, "device {}{}{}{}", why, choice.torch_name, choice.description.empty() ? "" : ", ",
            choice.description);
  metrics.GetGauge("device/fallback", "1 if device auto chose the CPU because CUDA is missing").Set(choice.fell_back);
}

}  // namespace ingot::app
