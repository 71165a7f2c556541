// Selects the device that a run computes on. CUDA support is in libingot_cuda.so. Opening the library registers torch's
// CUDA operators and Ingot's kernels. The program itself does not link CUDA, so it can run on the CPU if the library or
// a GPU is missing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/models/device_watch.h"
#include "app/models/nvml.h"
#include "base/metrics.h"
#include "base/status.h"
#include "kernels/cuda/probe.h"

namespace ingot::app {

struct DeviceChoice {
  std::string torch_name = "cpu";   // "cpu" or "cuda:N", where CUDA_VISIBLE_DEVICES determines which GPU N is
  std::string description;          // for display: the GPU's name and memory, or the reason for using the CPU
  bool fell_back = false;           // true = configured as `auto`, but CUDA is not usable
  bool warns = false;               // true = fell back although the device library is installed
  int devices = 0;                  // number of CUDA devices on this machine
  void* library = nullptr;          // handle of libingot_cuda.so from dlopen; null = not opened
  std::vector<GpuUser> users = {};  // other processes on this device, if NVML reports them
};

// `configured` is auto, cpu, or cuda. If `library` is empty, searches for the library next to this program and then in
// ../lib. For `cuda`, errors are one line with the problem and the fix: UNIMPLEMENTED if there is no library, and
// UNAVAILABLE if it cannot be opened, there is no usable device, or another process uses the device exclusively. `auto`
// never fails and falls back to the CPU. `place` is the index of this process among the machine's compute processes,
// which are assigned to devices round-robin. Call this before any other use of torch, because torch caches its result
// if it finds no CUDA. Thread safe. The library stays open.
absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, const std::string& library, int place = 0);

// Same as above, but reads `library` from the environment variable INGOT_CUDA_LIBRARY.
absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, int place = 0);

// Returns the memory of CUDA device `device`, in bytes, less what NVML reports for other processes. Processes that NVML
// does not report are not counted. nullopt = unknown. Creates no CUDA context. REQUIRES: `choice` is a GPU.
std::optional<int64_t> MemoryWithoutOthers(const DeviceChoice& choice, int device);

// Logs the choice, as a warning if it warns. Sets the gauge device/fallback to 1 if `auto` fell back to the CPU, and to 0 otherwise. On a GPU,
// returns the owner of its gauges, which must be destroyed before `metrics`; null = the CPU.
[[nodiscard]] std::unique_ptr<DeviceWatch> ReportDevice(const DeviceChoice& choice, base::Metrics& metrics);

// Returns OK if device 0 of the probed library is usable. `driver` is NVML's report, for the message. Pure, like the
// functions below.
absl::Status JudgeProbe(const kernels::cuda::DeviceProbe& probe, const DriverFacts& driver = {});
// Returns UNAVAILABLE if the compute mode prevents this process from using the device `name`.
absl::Status JudgeMode(ComputeMode mode, const std::vector<GpuUser>& users, const std::string& name);

// Returns the oldest NVIDIA driver branch that supports a CUDA version (1000 * major + 10 * minor), such as 580 for
// 13.0. Minor versions are compatible (NVIDIA, "CUDA Compatibility").
int LeastDriver(int32_t cuda_version);
std::string CudaVersion(int32_t version);  // "13.0" for 13000
// Returns "process 4711 uses 60.0 GiB" for one or more processes, or "" for none.
std::string ShowUsers(const std::vector<GpuUser>& users);

}  // namespace ingot::app
