// The runtime's functions of streams and events.
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "standin/runtime/device.h"
#include "standin/runtime/graph.h"
#include "standin/runtime/settings.h"
#include "standin/runtime/streams.h"

using namespace ingot::standin;

namespace {

// A loop that asks until an event or a stream is ready would never end in the lazy mode. So the work runs after so many questions.
constexpr int kQuestions = 200;

class Events {
 public:
  cudaEvent_t Create() {
    auto event = std::make_shared<Event>();
    const std::lock_guard lock(mu_);
    const auto handle = reinterpret_cast<cudaEvent_t>(event.get());
    handles_[handle] = std::move(event);
    return handle;
  }
  EventPtr Find(cudaEvent_t handle) {
    const std::lock_guard lock(mu_);
    const auto found = handles_.find(handle);
    return found == handles_.end() ? nullptr : found->second;
  }
  bool Destroy(cudaEvent_t handle) {
    const std::lock_guard lock(mu_);
    return handles_.erase(handle) != 0;
  }

 private:
  std::mutex mu_;
  std::unordered_map<cudaEvent_t, EventPtr> handles_;  // guarded by mu_
};

Events& GetEvents() {
  static auto* events = new Events;
  return *events;
}

cudaError_t NoStream(const char* call) { return Fail(cudaErrorInvalidResourceHandle, "%s: no such stream", call); }
cudaError_t NoEvent(const char* call) { return Fail(cudaErrorInvalidResourceHandle, "%s: no such event", call); }

cudaError_t Answer(const Mark& mark, int& questions) {
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  if (GetStreams().Passed(mark)) return cudaSuccess;
  if (++questions < kQuestions) return cudaErrorNotReady;
  questions = 0;
  const bool passed = GetStreams().Try(mark);
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  return passed ? cudaSuccess : cudaErrorNotReady;
}

}  // namespace

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  *stream = GetStreams().Create(CurrentDevice(), (flags & cudaStreamNonBlocking) == 0);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return GetStreams().Destroy(stream) ? DeviceFault() : NoStream("cudaStreamDestroy");
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const StreamPtr stream = GetStreams().Find(handle);
  if (stream == nullptr) return NoStream("cudaStreamSynchronize");
  if (const cudaError_t error = RefuseWhileCaptured("cudaStreamSynchronize", stream); error != cudaSuccess)
    return error;
  GetStreams().WaitFor(stream);
  return DeviceFault();
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  thread_local int questions = 0;
  const StreamPtr stream = GetStreams().Find(handle);
  if (stream == nullptr) return NoStream("cudaStreamQuery");
  if (const cudaError_t error = RefuseWhileCaptured("cudaStreamQuery", stream); error != cudaSuccess) return error;
  return Answer(GetStreams().End(stream), questions);
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = RefuseWhileCaptured("cudaDeviceSynchronize"); error != cudaSuccess) return error;
  GetStreams().WaitForDevice(CurrentDevice());
  return DeviceFault();
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  const StreamPtr stream = GetStreams().Find(handle);
  if (stream == nullptr) return NoStream("cudaLaunchHostFunc");
  GetStreams().Push(stream, [function, data] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function, void* data, unsigned) {
  const StreamPtr stream = GetStreams().Find(handle);
  if (stream == nullptr) return NoStream("cudaStreamAddCallback");
  if (const cudaError_t error = RefuseWhileCaptured("cudaStreamAddCallback", stream); error != cudaSuccess)
    return error;
  GetStreams().Push(stream, [=] { function(handle, cudaSuccess, data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  *event = GetEvents().Create();
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return GetEvents().Destroy(event) ? DeviceFault() : NoEvent("cudaEventDestroy");
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t on, unsigned) {
  const EventPtr event = GetEvents().Find(handle);
  if (event == nullptr) return NoEvent("cudaEventRecord");
  const StreamPtr stream = GetStreams().Find(on);
  if (stream == nullptr) return NoStream("cudaEventRecord");
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  RecordEvent(stream, event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t on, unsigned) {
  const EventPtr event = GetEvents().Find(on);
  if (event == nullptr) return NoEvent("cudaStreamWaitEvent");
  const StreamPtr stream = GetStreams().Find(handle);
  if (stream == nullptr) return NoStream("cudaStreamWaitEvent");
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  return WaitForEvent(stream, event);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const EventPtr event = GetEvents().Find(handle);
  if (event == nullptr) return NoEvent("cudaEventQuery");
  if (const cudaError_t error = RefuseWhileCaptured("cudaEventQuery"); error != cudaSuccess) return error;
  return Answer(event->mark, event->questions);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const EventPtr event = GetEvents().Find(handle);
  if (event == nullptr) return NoEvent("cudaEventSynchronize");
  if (const cudaError_t error = RefuseWhileCaptured("cudaEventSynchronize"); error != cudaSuccess) return error;
  GetStreams().WaitFor(event->mark);
  return DeviceFault();
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const EventPtr first = GetEvents().Find(begin), last = GetEvents().Find(end);
  if (first == nullptr || last == nullptr) return NoEvent("cudaEventElapsedTime");
  if (!GetStreams().Passed(first->mark) || !GetStreams().Passed(last->mark)) return Done(cudaErrorNotReady);
  *milliseconds = static_cast<float>(last->milliseconds - first->milliseconds);
  return cudaSuccess;
}
