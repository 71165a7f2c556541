// The device that a run computes on. CUDA comes with libingot_cuda.so: opening the library registers torch's CUDA
// operators and the kernels. So a program without the library, or a machine without a card, runs on the CPU and does
// not link CUDA.
#pragma once

#include <string>

#include "base/metrics.h"
#include "base/status.h"
#include "kernels/cuda/probe.h"

namespace ingot::app {

struct DeviceChoice {
  std::string torch_name = "cpu";  // "cpu" or "cuda:N"; CUDA_VISIBLE_DEVICES decides which card N is
  std::string description;         // as text: name and memory of the card, or the reason for the CPU
  bool fell_back = false;          // configured as `auto`, without usable CUDA
  int devices = 0;                 // number of devices of the machine
  void* library = nullptr;         // libingot_cuda.so, as dlopen returned it; null = not opened
};

// `configured` is auto, cpu or cuda. The library is `library` if that is not empty, else the file next to this program
// or in ../lib. For `cuda` an error says in one line what is wrong and what to do: UNIMPLEMENTED: no library;
// UNAVAILABLE: it cannot be opened, or there is no usable device. `auto` takes the CPU instead and never fails.
// `place`: number of this process among the machine's processes that compute; they take the devices in turn. Call
// it before any other use of torch, since torch remembers that there was no CUDA. Thread safe; the library stays
// open.
absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, const std::string& library, int place = 0);

// The same with the environment's INGOT_CUDA_LIBRARY as `library`.
absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, int place = 0);

// Logs the choice and sets the gauge device/fallback: 1 if `auto` took the CPU because CUDA is missing.
void ReportDevice(const DeviceChoice& choice, base::Metrics& metrics);

// The verdict on a library's probe: OK if its device 0 can be used. Pure.
absl::Status JudgeProbe(const kernels::cuda::DeviceProbe& probe);

}  // namespace ingot::app
