// Implements the CUDA kernels of device_graph.h. Part of libingot_cuda.so, which registers them when it is loaded.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "kernels/torch/device_graph.h"

namespace ingot::kernels {
namespace {

// Graphs are recorded on a stream of their own, because the default one cannot be, and always on the same, so that later
// recordings reuse its memory.
struct Recording {
  std::unique_ptr<at::cuda::CUDAGraph> graph = std::make_unique<at::cuda::CUDAGraph>();
  std::optional<c10::cuda::CUDAStreamGuard> guard;  // while it is recorded
};

std::mutex& GraphMutex() {
  static auto* const mu = new std::mutex;
  return *mu;
}

std::map<int64_t, std::shared_ptr<Recording>>& AllGraphs() {  // guarded by GraphMutex()
  static auto* const all = new std::map<int64_t, std::shared_ptr<Recording>>;
  return *all;
}

std::shared_ptr<Recording> FindGraph(int64_t id) {
  const std::lock_guard lock(GraphMutex());
  const auto found = AllGraphs().find(id);
  TORCH_CHECK(found != AllGraphs().end(), "there is no graph ", id);
  return found->second;
}

int64_t BeginGraph(const at::Tensor& like) {
  static const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(false, like.device().index());
  static at::cuda::MempoolId_t pool;
  {
    const std::lock_guard lock(GraphMutex());
    if (AllGraphs().empty())
      pool = at::cuda::graph_pool_handle();  // torch does not use a pool again after its last graph
  }
  const auto recording = std::make_shared<Recording>();
  recording->guard.emplace(stream);
  // Other threads may allocate and wait meanwhile.
  try {
    recording->graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  } catch (...) {
    // Not destroyed: torch's destructor ends the process if the memory for its generator's state was missing.
    static_cast<void>(recording->graph.release());
    throw;
  }
  static int64_t last = 0;
  const std::lock_guard lock(GraphMutex());
  AllGraphs()[++last] = recording;
  return last;
}

void DropGraph(const at::Tensor&, int64_t id) {
  std::shared_ptr<Recording> recording;  // destroyed without the lock
  const std::lock_guard lock(GraphMutex());
  const auto found = AllGraphs().find(id);
  if (found == AllGraphs().end()) return;
  recording = found->second;
  AllGraphs().erase(found);
}

// keep false = what was recorded is discarded, and its errors with it.
void EndGraph(const at::Tensor& like, int64_t id, bool keep) {
  const std::shared_ptr<Recording> recording = FindGraph(id);
  try {
    recording->graph->capture_end();
    recording->guard.reset();
    if (keep) return;
  } catch (const std::exception&) {
    recording->guard.reset();
    static_cast<void>(cudaGetLastError());
    DropGraph(like, id);
    if (keep) throw;
    return;
  }
  DropGraph(like, id);
}

void ReplayGraph(const at::Tensor& like, int64_t id) {
  const c10::cuda::CUDAGuard guard(like.device());
  FindGraph(id)->graph->replay();
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) {
  m.impl("graph_begin", BeginGraph);
  m.impl("graph_end", EndGraph);
  m.impl("graph_replay", ReplayGraph);
  m.impl("graph_drop", DropGraph);
}

}  // namespace
}  // namespace ingot::kernels
