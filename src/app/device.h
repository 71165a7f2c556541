// Where a run computes. CUDA comes with libingot_cuda.so: opening it registers torch's CUDA operators and the kernels,
// so that a program without it, or a machine without a card, runs on the CPU and links nothing of CUDA.
#pragma once

#include <string>

#include "base/metrics.h"
#include "base/status.h"
#include "kernels/cuda/probe.h"

namespace ingot::app {

struct DeviceChoice {
  std::string torch_name = "cpu";  // "cpu" or "cuda:N"; which card that is, CUDA_VISIBLE_DEVICES says
  std::string description;         // for people: name and memory of the card, or why it is the CPU
  bool fell_back = false;          // `auto`, and CUDA was not to be had
  int devices = 0;                 // that there are
  void* library = nullptr;         // libingot_cuda.so, as dlopen gave it
};

// `configured` is auto, cpu or cuda. The library is looked for at `library` if that is set, else beside this program
// and in ../lib. `cuda`: an error in one line says what is wrong and what to do. UNIMPLEMENTED: no library;
// UNAVAILABLE: it cannot be opened, or there is no usable device. `auto` takes the CPU then and never fails. Call it
// before anything else of torch: torch remembers that there was no CUDA. Thread safe; the library stays open. `place`:
// of this process among those of the machine that compute; they take the devices in turn.
absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, const std::string& library, int place = 0);

// The same with the environment's INGOT_CUDA_LIBRARY as `library`.
absl::StatusOr<DeviceChoice> OpenDevice(const std::string& configured, int place = 0);

// Logs the choice and sets the gauge device/fallback: 1 if `auto` took the CPU for want of CUDA.
void ReportDevice(const DeviceChoice& choice, base::Metrics& metrics);

// What a library's probe means: OK if its device 0 can be used. Pure.
absl::Status JudgeProbe(const kernels::cuda::DeviceProbe& probe);

}  // namespace ingot::app
