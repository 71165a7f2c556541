#include "standin/runtime/streams.h"

#include <algorithm>
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
  RunUntil(lock, *stream, stream->pushed);
  std::erase(all_, stream);
  return true;
}

void Streams::Queue(Stream& stream, Work work) {
  stream.queue.push_back(std::move(work));
  ++stream.pushed;
  ++works_;
}

// Puts the waits before work on the default stream, or on a stream that blocks.
void Streams::JoinDefault(const StreamPtr& stream) {
  const StreamPtr first = Default(stream->device);
  const auto wait = [&](const StreamPtr& other) {
    if (other->done == other->pushed) return;
    Queue(*stream, [this, mark = Mark{other, other->pushed}] { WaitFor(mark); });
  };
  if (stream != first) {
    if (stream->blocking) wait(first);
    return;
  }
  for (const StreamPtr& other : all_) {
    if (other != first && other->blocking && other->device == stream->device) wait(other);
  }
}

void Streams::Push(const StreamPtr& stream, Work work) {
  std::unique_lock lock(mu_);
  if (stream->capture != nullptr) {
    stream->capture->Add(stream, std::move(work));
    return;
  }
  JoinDefault(stream);
  Queue(*stream, std::move(work));
  Move(lock, *stream);
}

void Streams::PushWait(const StreamPtr& stream, const Mark& mark) {
  if (mark.stream == nullptr || mark.stream == stream) return;
  Push(stream, [this, mark] { WaitFor(mark); });
}

void Streams::Move(std::unique_lock<std::mutex>& lock, Stream& stream) {
  switch (GetSettings().streams) {
    case StreamMode::kLazy:
      break;
    case StreamMode::kEager:
      RunUntil(lock, stream, stream.pushed);
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
  if (waiting > 0) RunUntil(lock, *stream, stream->done + 1 + random_() % waiting);
}

void Streams::RunUntil(std::unique_lock<std::mutex>& lock, Stream& stream, uint64_t position) {
  while (stream.done < position) {
    if (stream.running) {
      moved_.wait(lock);
      continue;
    }
    stream.running = true;
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    lock.unlock();
    if (DeviceFault() == cudaSuccess) work();
    lock.lock();
    stream.running = false;
    ++stream.done;
    moved_.notify_all();
  }
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
  RunUntil(lock, *mark.stream, mark.position);
}

void Streams::WaitForDevice(int device) {
  std::unique_lock lock(mu_);
  const std::vector<StreamPtr> all = all_;
  for (const StreamPtr& stream : all) {
    if (stream->device == device) RunUntil(lock, *stream, stream->pushed);
  }
}

Streams& GetStreams() {
  static auto* streams = new Streams;
  return *streams;
}

}  // namespace ingot::standin
