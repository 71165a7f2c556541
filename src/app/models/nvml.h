// Reads facts about NVIDIA GPUs from the driver's management library (NVML). The library belongs to the driver and is
// opened with dlopen, so a machine without it loses only these facts. Nothing here creates a CUDA context.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ingot::app {

// The installed NVIDIA driver.
struct DriverFacts {
  std::string version = {};  // such as "580.65.06"; empty = unknown
  int32_t cuda_version = 0;  // latest CUDA version that it supports, 1000 * major + 10 * minor; 0 = unknown
};

// Another process that computes on a GPU.
struct GpuUser {
  uint32_t pid = 0;                     // as the driver reports it, which may differ inside a container
  std::optional<int64_t> memory_bytes;  // nullopt = the driver does not report it
};

enum class ComputeMode { kShared, kExclusive, kProhibited };

// Thread safe. A GPU is identified by its PCI address, such as "00000000:3B:00.0", because CUDA_VISIBLE_DEVICES
// renumbers devices only for CUDA. A fact that NVML does not report is nullopt or an empty list.
class Nvml {
 public:
  // Opens the library named by the environment variable INGOT_NVML_LIBRARY, or libnvidia-ml.so.1. Returns null if it
  // cannot be opened, lacks a function, or fails to initialize.
  static std::unique_ptr<Nvml> Open();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  DriverFacts Driver() const;
  // Returns the share of the last sample period (up to one second) in which a kernel was running, from 0 to 1.
  std::optional<double> Utilization(const std::string& pci_address) const;
  std::optional<ComputeMode> Mode(const std::string& pci_address) const;
  // Returns the processes with a CUDA context on the GPU, except this one.
  std::vector<GpuUser> Users(const std::string& pci_address) const;

 private:
  struct Functions;
  Nvml(void* library, std::unique_ptr<Functions> functions);

  void* const library_;
  const std::unique_ptr<Functions> functions_;
};

}  // namespace ingot::app
