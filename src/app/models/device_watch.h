// Keeps the gauges for a process's GPU up to date.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "app/models/nvml.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "kernels/cuda/probe.h"

namespace ingot::app {

// Sets device/memory_allocated_bytes, device/memory_reserved_bytes, and device/memory_total_bytes, and, if NVML
// supports the GPU, device/utilization. Owns a thread that sets them every five seconds, because reading them at each
// scrape could make a scrape wait for the driver. The metrics must outlive the object.
class DeviceWatch {
 public:
  using ReadMemory = decltype(&ingot_cuda_memory);

  // `device` is the GPU's CUDA device number. `nvml` may be null.
  DeviceWatch(ReadMemory read, int device, std::unique_ptr<Nvml> nvml, base::Metrics& metrics);
  ~DeviceWatch();  // waits for the thread

  // Sets the gauges once. Called by the thread, and once by the constructor.
  void Refresh();

 private:
  void Run();

  const ReadMemory read_;
  const int device_;
  const std::unique_ptr<Nvml> nvml_;
  base::Metrics& metrics_;
  base::Gauge &allocated_, &reserved_, &total_, &graph_failures_, &graph_replays_;
  base::Mutex mu_;
  base::CondVar stop_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // declared last because it uses everything above
};

}  // namespace ingot::app
