#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

// Streams as queues, and events as places in them.
//
// Work runs in the thread that waits for it, never in one of the stand-in's own, in the order in which it was queued. When it runs is the
// mode's (settings.h). A wait for an event is itself work: it moves the event's stream up to the event. Streams that block wait for the
// default stream and it for them, as CUDA's legacy default stream does.
//
// While a stream is captured, its work goes into the capture (graph.h) and not into its queue.
namespace ingot::standin {

using Work = std::function<void()>;
// Whether work can run, as work that waits for another process. Asked in any thread, as often as somebody waits. Null = always.
using Ready = std::function<bool()>;
struct Capture;

struct Stream {
  int device = 0;
  bool blocking = true;
  std::deque<std::pair<Work, Ready>> queue;  // guarded by Streams::mu_
  uint64_t pushed = 0;                       // work ever queued; guarded by mu_
  uint64_t done = 0;                         // work that has run; guarded by mu_
  bool running = false;                      // a thread runs one of its works; guarded by mu_
  std::shared_ptr<Capture> capture;          // null = not captured; guarded by mu_
};
using StreamPtr = std::shared_ptr<Stream>;

// A place in a stream: all that was queued before it.
struct Mark {
  StreamPtr stream;  // null = nothing to wait for
  uint64_t position = 0;
};

struct Event {
  Mark mark;
  std::shared_ptr<Capture> capture;  // recorded while its stream was captured
  StreamPtr captured;                // that stream
  double milliseconds = 0;           // the host's clock when the stream passed it
  int questions = 0;                 // answered with "not ready" since it was recorded
};
using EventPtr = std::shared_ptr<Event>;

// Thread-safe.
class Streams {
 public:
  // Null handles, cudaStreamLegacy: the current device's default stream. Returns null for a handle that is no stream.
  StreamPtr Find(cudaStream_t handle);
  cudaStream_t Create(int device, bool blocking);
  bool Destroy(cudaStream_t handle);  // its queue still runs when somebody waits for the device

  // Queues `work`, or adds it to the stream's capture, which takes only work that is always ready.
  void Push(const StreamPtr& stream, Work work, Ready ready = nullptr);
  // Queues a wait for `mark`.
  void PushWait(const StreamPtr& stream, const Mark& mark);

  Mark End(const StreamPtr& stream);
  bool Passed(const Mark& mark);
  void WaitFor(const Mark& mark);
  // Runs work up to `mark` as long as it is ready. Returns whether all has run. Never waits.
  bool Try(const Mark& mark);
  void WaitFor(const StreamPtr& stream) { WaitFor(End(stream)); }
  void WaitForDevice(int device);

  std::mutex& mutex() { return mu_; }
  uint64_t works() const { return works_; }

 private:
  StreamPtr Default(int device);  // REQUIRES: mu_
  void Queue(Stream& stream, Work work, Ready ready);
  void QueueWait(const StreamPtr& stream, const Mark& mark);
  void JoinDefault(const StreamPtr& stream);
  bool RunFirst(std::unique_lock<std::mutex>& lock, Stream& stream);
  bool RunUntil(std::unique_lock<std::mutex>& lock, Stream& stream, uint64_t position, bool waits);
  void RunSome(std::unique_lock<std::mutex>& lock);
  void Move(std::unique_lock<std::mutex>& lock, Stream& stream);

  std::mutex mu_;
  std::condition_variable moved_;
  std::vector<StreamPtr> all_;       // guarded by mu_, as all below
  std::vector<StreamPtr> defaults_;  // by device
  std::unordered_map<cudaStream_t, StreamPtr> handles_;
  std::mt19937_64 random_;
  bool seeded_ = false;
  uint64_t works_ = 0;
};

Streams& GetStreams();

}  // namespace ingot::standin
