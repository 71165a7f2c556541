// A recorded sequence of launches on a GPU (a CUDA graph), which runs again with one call on the same memory. The
// operators behind it are registered with the dispatcher under `ingot`; only libingot_cuda.so has kernels:
//
//   graph_begin(like) -> id    graph_end(like, id, keep)    graph_replay(like, id)    graph_drop(like, id)
//
// All graphs of a process take their memory from one pool, and reuse what an earlier recording has released. So a
// graph's results must be read before another graph runs. Used by one thread. torch's allocator and other threads may
// work on the device meanwhile.
#pragma once

#include <ATen/ATen.h>

#include <functional>

namespace ingot::kernels {

class DeviceGraph {
 public:
  // Calls f, whose work is recorded and not run. `like`: a tensor on the device. Throws what f throws, and c10::Error if
  // f did what cannot be recorded, such as a wait or a copy of pageable memory. Then it also counts in
  // cuda::graph_failures.
  DeviceGraph(const at::Tensor& like, const std::function<void()>& f);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  // Queues the work on the current stream, and counts in cuda::graph_replays. Throws c10::Error.
  void Replay() const;

 private:
  const at::Tensor like_;
  int64_t id_;
};

using GraphBeginSignature = int64_t(const at::Tensor& like);
using GraphEndSignature = void(const at::Tensor& like, int64_t id, bool keep);
using GraphReplaySignature = void(const at::Tensor& like, int64_t id);
using GraphDropSignature = void(const at::Tensor& like, int64_t id);

}  // namespace ingot::kernels
