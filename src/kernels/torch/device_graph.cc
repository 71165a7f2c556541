#include "kernels/torch/device_graph.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/cuda/graph_counts.h"

namespace ingot::kernels {
namespace {

TORCH_LIBRARY_FRAGMENT(ingot, m) {
  m.def("graph_begin(Tensor like) -> int");
  m.def("graph_end(Tensor like, int id, bool keep) -> ()");
  m.def("graph_replay(Tensor like, int id) -> ()");
  m.def("graph_drop(Tensor like, int id) -> ()");
}

c10::OperatorHandle GraphOp(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

}  // namespace

DeviceGraph::DeviceGraph(const at::Tensor& like, const std::function<void()>& f) : like_(like) {
  static const auto begin_op = GraphOp("ingot::graph_begin").typed<GraphBeginSignature>();
  static const auto end_op = GraphOp("ingot::graph_end").typed<GraphEndSignature>();
  bool recording = false;
  try {
    id_ = begin_op.call(like_);
    recording = true;
    f();
    recording = false;  // also if the end fails
    end_op.call(like_, id_, /*keep=*/true);
  } catch (...) {
    ++cuda::graph_failures;
    if (recording) end_op.call(like_, id_, /*keep=*/false);
    throw;
  }
}

DeviceGraph::~DeviceGraph() {
  static const auto drop = GraphOp("ingot::graph_drop").typed<GraphDropSignature>();
  try {
    drop.call(like_, id_);
  } catch (const std::exception&) {  // of a device that failed, which a later call reports
  }
}

void DeviceGraph::Replay() const {
  static const auto replay = GraphOp("ingot::graph_replay").typed<GraphReplaySignature>();
  replay.call(like_, id_);
  ++cuda::graph_replays;
}

}  // namespace ingot::kernels
