// The device that a run computes on. CUDA support is in libingot_cuda.so: opening the library registers torch's CUDA
// operators and Ingot's kernels. So the program itself does not link CUDA, and it runs on the CPU if the library or a
// GPU is missing.
#pragma once

#include <string>

#include "base/metrics.h"
#include "base/status.h"
#include "kernels/cuda/probe.h"

namespace ingot::app {

struct DeviceChoice {
  std::string torch_name = "cpu";  // "cpu" or "cuda:N"; CUDA_VISIBLE_DEVICES decides which card N is
  std::string description;         // for display: the GPU's name and memory, or why the CPU is used
  bool fell_back = false;          // configured as `auto`, without usable CUDA
  int devices = 0;                 // number of CUDA devices on this machine
  void* library = nullptr;         // libingot_cuda.so, as dlopen returned it; null = not opened
};

// `configured` is auto, cpu or cuda. The library is the file `library` if that is not empty; otherwise it is looked up
// next to this program, then in ../lib. For `cuda` an error says in one line what is wrong and what to do:
// UNIMPLEMENTED: no library; UNAVAILABLE: it cannot be opened, or there is no usable device. `auto` falls back to the
// CPU instead and never fails. `place`: index of this process among the machine's compute processes, which are assigned
// devices round-robin. Call this before any other use of torch: once torch has found no CUDA, it caches that result.
// Thread safe; the library stays open.
absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, const std::string& library, int place = 0);

// The same, with the environment variable INGOT_CUDA_LIBRARY as `library`.
absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, int place = 0);

// Logs the choice and sets the gauge device/fallback: 1 if `auto` fell back to the CPU because CUDA is not available.
void ReportDevice(const DeviceChoice& choice, base::Metrics& metrics);

// The verdict on a library's probe: OK if its device 0 can be used. Pure.
absl::Status JudgeProbe(const kernels::cuda::DeviceProbe& probe);

}  // namespace ingot::app
