#include "standin/runtime/streams.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "standin/runtime/device.h"
#include "standin/runtime/graph.h"
#include "standin/runtime/settings.h"

namespace ingot::standin {

StreamPtr Streams::Default(int device) {
  if (defaults_.empty()) defaults_.resize(static_cast<size_t>(std::max(GetSettings().devices, 1)));
  StreamPtr& stream = defaults_[device];
  if (stream == nullptr) {
    stream = std::make_shared<Stream>();
    stream->device = device;
    all_.push_back(stream);
  }
  return stream;
}

StreamPtr Streams::Find(cudaStream_t handle) {
  const std::lock_guard lock(mu_);
  if (handle == nullptr || handle == cudaStreamLegacy) return Default(CurrentDevice());
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second;
}

cudaStream_t Streams::Create(int device, bool blocking) {
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->blocking = blocking;
  const std::lock_guard lock(mu_);
  const auto handle = reinterpret_cast<cudaStream_t>(stream.get());
  all_.push_back(stream);
  handles_[handle] = std::move(stream);
  return handle;
}

bool Streams::Destroy(cudaStream_t handle) {
  std::unique_lock lock(mu_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return false;
  const StreamPtr stream = found->second;
  handles_.erase(found);
  RunUntil(lock, *stream, stream->pushed, /*waits=*/true);
  std::erase(all_, stream);
  return true;
}

void Streams::Queue(Stream& stream, Work work, Ready ready) {
  stream.queue.emplace_back(std::move(work), std::move(ready));
  ++stream.pushed;
  ++works_;
}

void Streams::QueueWait(const StreamPtr& stream, const Mark& mark) {
  Queue(*stream, [] {}, [this, mark] { return Try(mark); });
}

// Puts the waits before work on the default stream, or on a stream that blocks.
void Streams::JoinDefault(const StreamPtr& stream) {
  const StreamPtr first = Default(stream->device);
  const auto wait = [&](const StreamPtr& other) {
    if (other->done == other->pushed) return;
    QueueWait(stream, {other, other->pushed});
  };
  if (stream != first) {
    if (stream->blocking) wait(first);
    return;
  }
  for (const StreamPtr& other : all_) {
    if (other != first && other->blocking && other->device == stream->device) wait(other);
  }
}

void Streams::Push(const StreamPtr& stream, Work work, Ready ready) {
  std::unique_lock lock(mu_);
  if (stream->capture != nullptr) {
    if (ready != nullptr) Die("graphs with exchanges between ranks are not built");
    stream->capture->Add(stream, std::move(work));
    return;
  }
  JoinDefault(stream);
  Queue(*stream, std::move(work), std::move(ready));
  Move(lock, *stream);
}

void Streams::PushWait(const StreamPtr& stream, const Mark& mark) {
  if (mark.stream == nullptr || mark.stream == stream) return;
  Push(stream, [] {}, [this, mark] { return Try(mark); });
}

void Streams::Move(std::unique_lock<std::mutex>& lock, Stream& stream) {
  switch (GetSettings().streams) {
    case StreamMode::kLazy:
      break;
    case StreamMode::kEager:
      RunUntil(lock, stream, stream.pushed, /*waits=*/false);
      break;
    case StreamMode::kRandom:
      RunSome(lock);
      break;
  }
}

void Streams::RunSome(std::unique_lock<std::mutex>& lock) {
  if (!std::exchange(seeded_, true)) random_.seed(GetSettings().seed);
  if (random_() % 2 == 0) return;
  const StreamPtr stream = all_[random_() % all_.size()];
  const uint64_t waiting = stream->pushed - stream->done;
  if (waiting > 0) RunUntil(lock, *stream, stream->done + 1 + random_() % waiting, /*waits=*/false);
}

// Runs the first work of a stream that nobody runs, unless it is not ready.
bool Streams::RunFirst(std::unique_lock<std::mutex>& lock, Stream& stream) {
  stream.running = true;
  auto first = std::move(stream.queue.front());
  stream.queue.pop_front();
  lock.unlock();
  const bool broken = DeviceFault() != cudaSuccess;
  const bool ready = broken || first.second == nullptr || first.second();
  if (ready && !broken) first.first();
  lock.lock();
  stream.running = false;
  ready ? static_cast<void>(++stream.done) : stream.queue.push_front(std::move(first));
  moved_.notify_all();
  return ready;
}

bool Streams::RunUntil(std::unique_lock<std::mutex>& lock, Stream& stream, uint64_t position, bool waits) {
  constexpr auto kAskAgain = std::chrono::microseconds(200);
  while (stream.done < position) {
    if (stream.running) {
      if (!waits) return false;
      moved_.wait(lock);
    } else if (!RunFirst(lock, stream)) {
      if (!waits) return false;
      moved_.wait_for(lock, kAskAgain);
    }
  }
  return true;
}

Mark Streams::End(const StreamPtr& stream) {
  const std::lock_guard lock(mu_);
  return {stream, stream->pushed};
}

bool Streams::Passed(const Mark& mark) {
  const std::lock_guard lock(mu_);
  return mark.stream == nullptr || mark.stream->done >= mark.position;
}

void Streams::WaitFor(const Mark& mark) {
  if (mark.stream == nullptr) return;
  std::unique_lock lock(mu_);
  RunUntil(lock, *mark.stream, mark.position, /*waits=*/true);
}

bool Streams::Try(const Mark& mark) {
  if (mark.stream == nullptr) return true;
  std::unique_lock lock(mu_);
  return RunUntil(lock, *mark.stream, mark.position, /*waits=*/false);
}

void Streams::WaitForDevice(int device) {
  std::unique_lock lock(mu_);
  const std::vector<StreamPtr> all = all_;
  for (const StreamPtr& stream : all) {
    if (stream->device == device) RunUntil(lock, *stream, stream->pushed, /*waits=*/true);
  }
}

Streams& GetStreams() {
  static auto* streams = new Streams;
  return *streams;
}

}  // namespace ingot::standin
