#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "standin/runtime/streams.h"

// Graphs as lists of work in the order of capture. A launch queues the whole list, so that a replay reads memory when its stream moves.
namespace ingot::standin {

struct Graph {
  std::vector<Work> works;
};

// What is being captured, from cudaStreamBeginCapture to cudaStreamEndCapture. Guarded by Streams::mutex().
struct Capture {
  uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;  // that began it
  StreamPtr origin;
  Graph* graph = nullptr;
  bool valid = true;  // false after a call that a capture forbids
  // Streams that joined it, with the count of their works, and the count at the last event that the origin waited for.
  struct Joined {
    uint64_t works = 0;
    uint64_t seen = 0;
  };
  std::unordered_map<StreamPtr, Joined> streams;

  void Add(const StreamPtr& stream, Work work);
  bool AllRejoined() const;
};

// Returns an error, and invalidates the capture, if the calling thread may not make a call now that a capture forbids: one that waits, or
// that the mode of a running capture calls unsafe. `call` is its name. `stream`: what it waits for, or null.
cudaError_t RefuseWhileCaptured(const char* call, const StreamPtr& stream = nullptr);

// Lets `stream` wait for `event`, joining the event's capture if it has one.
cudaError_t WaitForEvent(const StreamPtr& stream, const EventPtr& event);
void RecordEvent(const StreamPtr& stream, const EventPtr& event);

}  // namespace ingot::standin
