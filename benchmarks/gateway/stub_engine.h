// A rollout engine that answers every request with the same text in a few chunks, from its own thread. Its cost
// is negligible, so a benchmark measures the server around it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "rollout/client.h"

namespace ingot::bench {

class StubEngine final : public rollout::Client {
 public:
  struct Options {
    std::vector<int32_t> answer;  // ids of every answer; log-probs differ from request to request
    int chunks = 4;               // the first at once, then one every `gap`; the last says that it is finished
    std::chrono::microseconds gap{2000};
    int32_t context_length = 262144;  // tokens
  };
  explicit StubEngine(Options options);
  ~StubEngine() override;

  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override;
  absl::StatusOr<v1::EngineStatusResponse> Status() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct State;
  struct Due {
    std::shared_ptr<State> state;
    int chunk;
  };
  class Handle;

  void Run();
  v1::GenerateChunk Chunk(const State& state, int index) const;

  const Options options_;
  base::Mutex mu_;
  base::CondVar changed_;
  std::multimap<Clock::time_point, Due> due_ ABSL_GUARDED_BY(mu_);
  uint64_t requests_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace ingot::bench
