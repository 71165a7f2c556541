#include "gateway/stub_engine.h"

#include <algorithm>
#include <utility>

namespace ingot::bench {

struct StubEngine::State {
  State(uint64_t request, OnChunk callback) : number(request), on_chunk(std::move(callback)) {}
  const uint64_t number;
  base::Mutex mu;
  OnChunk on_chunk ABSL_GUARDED_BY(mu);
};

class StubEngine::Handle final : public Request {
 public:
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Handle() override {
    base::MutexLock lock(state_->mu);
    state_->on_chunk = nullptr;
  }

 private:
  const std::shared_ptr<State> state_;
};

StubEngine::StubEngine(Options options) : options_(std::move(options)), thread_([this] { Run(); }) {}

StubEngine::~StubEngine() {
  {
    base::MutexLock lock(mu_);
    closed_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

std::unique_ptr<rollout::Client::Request> StubEngine::Generate(v1::GenerateRequest, OnChunk on_chunk) {
  base::MutexLock lock(mu_);
  auto state = std::make_shared<State>(requests_++, std::move(on_chunk));
  due_.emplace(Clock::now(), Due{state, 0});
  changed_.Signal();
  return std::make_unique<Handle>(std::move(state));
}

absl::StatusOr<v1::EngineStatusResponse> StubEngine::Status() {
  v1::EngineStatusResponse status;
  status.set_context_length(options_.context_length);
  return status;
}

void StubEngine::Run() {
  while (true) {
    Due next;
    {
      base::MutexLock lock(mu_);
      while (!closed_ && (due_.empty() || due_.begin()->first > Clock::now())) {
        if (due_.empty()) {
          changed_.Wait(mu_);
        } else {
          changed_.WaitFor(mu_, due_.begin()->first - Clock::now());
        }
      }
      if (closed_) return;
      next = std::move(due_.begin()->second);
      due_.erase(due_.begin());
      if (next.chunk + 1 < options_.chunks) due_.emplace(Clock::now() + options_.gap, Due{next.state, next.chunk + 1});
    }
    v1::GenerateChunk chunk = Chunk(*next.state, next.chunk);
    base::MutexLock lock(next.state->mu);
    if (next.state->on_chunk) next.state->on_chunk(std::move(chunk));
  }
}

v1::GenerateChunk StubEngine::Chunk(const State& state, int index) const {
  const size_t size = options_.answer.size(), chunks = options_.chunks;
  const size_t first = size * index / chunks, last = size * (index + 1) / chunks;
  v1::GenerateChunk chunk;
  for (size_t i = first; i < last; ++i) {
    chunk.add_token_ids(options_.answer[i]);
    chunk.add_logprobs(-static_cast<float>((state.number * 7919 + i * 104729) % 1000003) * 1e-6f);
  }
  if (last > first) chunk.add_versions()->set_count(static_cast<int32_t>(last - first));
  if (index + 1 == options_.chunks) chunk.set_finish(v1::FINISH_STOP);
  return chunk;
}

}  // namespace ingot::bench
