// Distributes work among threads, for all CPU kernels.
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/parallel_for.h"

namespace ingot::kernels::tiles {

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Hands out items 0..count-1, in order, to the threads of `parallel`. A thread takes the next item when it finishes
// one. make_worker() is called once per thread and returns a function that processes an item.
template <typename MakeWorker>
void ShareOut(const ParallelFor& parallel, int64_t count, double flops, const MakeWorker& make_worker) {
  std::atomic<int64_t> next{0};
  const auto work = [&](int64_t, int64_t) {
    if (next.load(std::memory_order_relaxed) >= count) return;
    auto worker = make_worker();
    for (int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < count;) worker(item);
  };
  constexpr double kWorthThreads = 1e6;  // with less work, waking a thread costs more than it saves
  if (count <= 1 || flops < kWorthThreads) {
    work(0, count);
  } else {
    parallel(count, work);
  }
}

}  // namespace ingot::kernels::tiles
