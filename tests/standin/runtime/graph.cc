#include "standin/runtime/graph.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "standin/runtime/device.h"

namespace ingot::standin {
namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

// Captures that run; guarded by Streams::mutex().
std::vector<std::shared_ptr<Capture>>& Running() {
  static auto* running = new std::vector<std::shared_ptr<Capture>>;
  return *running;
}

// Whether `capture` forbids unsafe calls to the calling thread (cudaThreadExchangeStreamCaptureMode).
bool Forbids(const Capture& capture) {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
  const bool own = capture.thread == std::this_thread::get_id();
  if (capture.mode == cudaStreamCaptureModeRelaxed) return false;
  if (capture.mode == cudaStreamCaptureModeThreadLocal) return own;
  return own || thread_mode == cudaStreamCaptureModeGlobal;
}

double Milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StreamPtr Stream_(cudaStream_t handle) { return GetStreams().Find(handle); }

}  // namespace

void Capture::Add(const StreamPtr& stream, Work work) {
  graph->works.push_back(std::move(work));
  ++streams[stream].works;
}

bool Capture::AllRejoined() const {
  return std::all_of(streams.begin(), streams.end(), [this](const auto& entry) {
    return entry.first == origin || entry.second.seen == entry.second.works;
  });
}

cudaError_t RefuseWhileCaptured(const char* call, const StreamPtr& stream) {
  const std::lock_guard lock(GetStreams().mutex());
  if (stream != nullptr && stream->capture != nullptr) {
    stream->capture->valid = false;
    return Fail(cudaErrorStreamCaptureUnsupported, "%s on a stream that is captured", call);
  }
  for (const auto& capture : Running()) {
    if (!Forbids(*capture)) continue;
    capture->valid = false;
    return Fail(cudaErrorStreamCaptureUnsupported, "%s while a stream is captured", call);
  }
  return cudaSuccess;
}

void RecordEvent(const StreamPtr& stream, const EventPtr& event) {
  {
    const std::lock_guard lock(GetStreams().mutex());
    event->capture = stream->capture;
    event->captured = stream->capture == nullptr ? nullptr : stream;
    event->questions = 0;
    if (stream->capture != nullptr) {
      event->mark = {nullptr, stream->capture->streams[stream].works};
      return;
    }
  }
  GetStreams().Push(stream, [event] { event->milliseconds = Milliseconds(); });
  event->mark = GetStreams().End(stream);
}

cudaError_t WaitForEvent(const StreamPtr& stream, const EventPtr& event) {
  {
    const std::lock_guard lock(GetStreams().mutex());
    if (event->capture != nullptr) {
      if (stream->capture != nullptr && stream->capture != event->capture) {
        return Fail(cudaErrorStreamCaptureMerge, "a wait would join two captures");
      }
      Capture& capture = *event->capture;
      stream->capture = event->capture;
      capture.streams.try_emplace(stream);
      if (stream == capture.origin) {
        auto& seen = capture.streams[event->captured].seen;
        seen = std::max(seen, event->mark.position);
      }
      return cudaSuccess;
    }
    if (stream->capture != nullptr && event->mark.stream != nullptr) {
      stream->capture->valid = false;
      return Fail(cudaErrorStreamCaptureIsolation, "a captured stream waits for an event from outside of the capture");
    }
  }
  GetStreams().PushWait(stream, event->mark);
  return cudaSuccess;
}

}  // namespace ingot::standin

using namespace ingot::standin;

namespace {

Graph* GraphOf(cudaGraph_t handle) { return reinterpret_cast<Graph*>(handle); }

cudaGraphExec_t Copied(const Graph& graph) {
  return reinterpret_cast<cudaGraphExec_t>(new std::shared_ptr<const Graph>(std::make_shared<Graph>(graph)));
}

const std::shared_ptr<const Graph>& ExecOf(cudaGraphExec_t handle) {
  return *reinterpret_cast<std::shared_ptr<const Graph>*>(handle);
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  static uint64_t last_id = 0;
  const StreamPtr stream = Stream_(handle);
  if (stream == nullptr) return Fail(cudaErrorInvalidResourceHandle, "capture of no stream");
  if (handle == nullptr || handle == cudaStreamLegacy) {
    return Fail(cudaErrorStreamCaptureUnsupported, "the default stream cannot be captured");
  }
  const std::lock_guard lock(GetStreams().mutex());
  if (stream->capture != nullptr) return Fail(cudaErrorIllegalState, "the stream is captured already");
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  capture->graph = new Graph;
  capture->streams.try_emplace(stream);
  stream->capture = capture;
  Running().push_back(std::move(capture));
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  const StreamPtr stream = Stream_(handle);
  if (stream == nullptr) return Fail(cudaErrorInvalidResourceHandle, "end of a capture of no stream");
  const std::lock_guard lock(GetStreams().mutex());
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr || capture->origin != stream) {
    return Fail(cudaErrorIllegalState, "the stream did not begin a capture");
  }
  for (const auto& [joined, counts] : capture->streams) joined->capture = nullptr;
  std::erase(Running(), capture);
  if (capture->valid && capture->AllRejoined()) {
    *graph = reinterpret_cast<cudaGraph_t>(capture->graph);
    return cudaSuccess;
  }
  delete capture->graph;
  if (!capture->valid) return Fail(cudaErrorStreamCaptureInvalidated, "a call that a capture forbids was made");
  return Fail(cudaErrorStreamCaptureUnjoined, "a stream joined the capture, and its last work was not waited for");
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  const StreamPtr stream = Stream_(handle);
  if (stream == nullptr) return Fail(cudaErrorInvalidResourceHandle, "no such stream");
  const std::lock_guard lock(GetStreams().mutex());
  const Capture* capture = stream->capture.get();
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->valid   ? cudaStreamCaptureStatusActive
                               : cudaStreamCaptureStatusInvalidated;
  if (id != nullptr) *id = capture == nullptr ? 0 : capture->id;
  if (graph != nullptr) *graph = capture == nullptr ? nullptr : reinterpret_cast<cudaGraph_t>(capture->graph);
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = Copied(*GraphOf(graph));
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  const StreamPtr stream = Stream_(handle);
  if (stream == nullptr) return Fail(cudaErrorInvalidResourceHandle, "launch of a graph on no stream");
  GetStreams().Push(stream, [graph = ExecOf(exec)] {
    for (const Work& work : graph->works) work();
  });
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes != nullptr) return Fail(cudaErrorNotSupported, "the nodes of a graph are not built, only their count");
  *count = GraphOf(graph)->works.size();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete GraphOf(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete reinterpret_cast<std::shared_ptr<const Graph>*>(exec);
  return cudaSuccess;
}
