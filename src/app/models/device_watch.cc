#include "app/models/device_watch.h"

#include <chrono>
#include <utility>

#include "kernels/cuda/graph_counts.h"

namespace ingot::app {

DeviceWatch::DeviceWatch(ReadMemory read, int device, std::unique_ptr<Nvml> nvml, base::Metrics& metrics)
    : read_(read),
      device_(device),
      nvml_(std::move(nvml)),
      metrics_(metrics),
      allocated_(metrics.GetGauge("device/memory_allocated_bytes", "the GPU's memory that this process's tensors use")),
      reserved_(metrics.GetGauge("device/memory_reserved_bytes",
                                 "the GPU's memory that this process's allocator holds, in use or kept for reuse")),
      total_(metrics.GetGauge("device/memory_total_bytes", "the GPU's memory")),
      graph_failures_(metrics.GetGauge("device/graph_failures",
                                       "decode steps that could not be recorded as CUDA graphs (rollout.cuda_graphs)")),
      graph_replays_(metrics.GetGauge("device/graph_replays", "decode steps that ran as CUDA graphs")) {
  Refresh();
  thread_ = std::thread([this] { Run(); });
}

DeviceWatch::~DeviceWatch() {
  {
    const base::MutexLock lock(mu_);
    stopped_ = true;
  }
  stop_.SignalAll();
  thread_.join();
}

void DeviceWatch::Run() {
  constexpr auto kEvery = std::chrono::seconds(5);
  while (true) {
    {
      const base::MutexLock lock(mu_);
      const auto until = std::chrono::steady_clock::now() + kEvery;
      while (!stopped_ && std::chrono::steady_clock::now() < until) {
        stop_.WaitFor(mu_, until - std::chrono::steady_clock::now());
      }
      if (stopped_) return;
    }
    Refresh();
  }
}

void DeviceWatch::Refresh() {
  graph_failures_.Set(static_cast<double>(kernels::cuda::graph_failures.load()));
  graph_replays_.Set(static_cast<double>(kernels::cuda::graph_replays.load()));
  kernels::cuda::DeviceMemory memory;
  if (read_(device_, &memory) != 0) return;  // the last values stay
  allocated_.Set(static_cast<double>(memory.allocated_bytes));
  reserved_.Set(static_cast<double>(memory.reserved_bytes));
  total_.Set(static_cast<double>(memory.total_bytes));
  if (nvml_ == nullptr) return;
  const std::optional<double> busy = nvml_->Utilization(memory.pci_address);
  if (!busy.has_value()) return;
  metrics_.GetGauge("device/utilization", "share of the last second in which the GPU ran a kernel of any process")
      .Set(*busy);
}

}  // namespace ingot::app
