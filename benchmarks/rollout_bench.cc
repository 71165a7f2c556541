// Rollout engine throughput: sampled tokens per second, and what share of it is the model.
//
//   cmake --preset release -DINGOT_BUILD_BENCHMARKS=ON && ninja -C build/release rollout_bench
//   build/release/benchmarks/rollout_bench [threads=1] [fp32|bf16]
//
// A random model of 1.0M parameters (vocabulary 272, width 128, 5 layers), prompts of 100 tokens, 128 sampled
// each at temperature 1, all requests at once. `own`: prompts differ from the first token. `shared`: 96 tokens in
// common. `again`: the shared prompts once more, now in the cache. Per workload the best of three rounds. "model" is
// the time inside ModelRunner::Forward; the rest of a step is scheduling, sampling and callbacks. Not measured: HTTP,
// tokenizers, swaps.
#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/rng.h"
#include "model/parameters.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/torch_runner.h"

namespace {

using namespace ingot;
using Seconds = std::chrono::duration<double>;
using std::chrono::steady_clock;

constexpr int kNewTokens = 128;

model::ModelConfig Config() {
  model::ModelConfig config;
  config.vocab_size = 272;
  config.hidden_size = 128;
  config.intermediate_size = 384;
  config.num_hidden_layers = 5;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 32;
  config.max_position_embeddings = 1024;
  config.qk_norm = true;
  config.tie_word_embeddings = true;
  return config;
}

class TimedRunner final : public rollout::ModelRunner {
 public:
  explicit TimedRunner(std::unique_ptr<rollout::ModelRunner> runner) : runner_(std::move(runner)) {}
  int64_t vocab_size() const override { return runner_->vocab_size(); }
  int64_t context_length() const override { return runner_->context_length(); }
  const std::vector<int32_t>& eos_ids() const override { return runner_->eos_ids(); }
  int64_t max_weight_bytes() const override { return runner_->max_weight_bytes(); }
  absl::StatusOr<std::shared_ptr<const rollout::RunnableModel>> Load(
      std::shared_ptr<const weights::Snapshot> snapshot) override {
    return runner_->Load(std::move(snapshot));
  }
  void BindThread() override { runner_->BindThread(); }
  std::span<const float> LogNormalizers() const override { return runner_->LogNormalizers(); }
  absl::StatusOr<std::span<const float>> Forward(const rollout::RunnableModel& model,
                                                 const rollout::ForwardBatch& batch) override {
    const auto start = steady_clock::now();
    auto rows = runner_->Forward(model, batch);
    nanos += (steady_clock::now() - start).count();
    ++passes;
    return rows;
  }
  std::atomic<int64_t> nanos{0}, passes{0};

 private:
  const std::unique_ptr<rollout::ModelRunner> runner_;
};

struct Round {
  double seconds = 0, cpu_seconds = 0, model_seconds = 0;
  int64_t passes = 0;
};

Round Run(rollout::Engine& engine, TimedRunner& runner, int batch, bool shared, uint64_t salt) {
  base::Mutex mu;
  base::CondVar done;
  int left = batch;
  std::vector<v1::GenerateRequest> asks(batch);
  for (int i = 0; i < batch; ++i) {
    for (int j = 0; j < 100; ++j) {
      const uint64_t stream = shared && j < 96 ? salt : salt * 1000 + 1 + i;
      asks[i].add_prompt_ids(static_cast<int32_t>(base::DeriveSeed(stream, j) % 272));
    }
    asks[i].mutable_sampling()->set_temperature(1);
    asks[i].mutable_sampling()->set_seed(i);
    asks[i].mutable_sampling()->set_ignore_eos(true);
    asks[i].mutable_sampling()->set_max_new_tokens(kNewTokens);
    asks[i].set_pinned_version(-1);
  }
  const int64_t nanos = runner.nanos, passes = runner.passes;
  const auto start = steady_clock::now();
  const std::clock_t cpu = std::clock();
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  for (const v1::GenerateRequest& ask : asks) {
    requests.push_back(engine.Generate(ask, [&](absl::StatusOr<v1::GenerateChunk> chunk) {
      if (chunk.ok() && chunk->finish() == v1::FINISH_UNSPECIFIED) return;
      base::MutexLock lock(mu);
      if (!chunk.ok()) std::fprintf(stderr, "%s\n", chunk.status().ToString().c_str());
      --left;
      done.Signal();
    }));
  }
  base::MutexLock lock(mu);
  while (left > 0) done.Wait(mu);
  return {Seconds(steady_clock::now() - start).count(), static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC,
          1e-9 * static_cast<double>(runner.nanos - nanos), runner.passes - passes};
}

}  // namespace

int main(int argc, char** argv) {
  rollout::EngineOptions options;
  options.threads = argc > 1 ? std::atoi(argv[1]) : 1;
  auto runner = std::make_unique<TimedRunner>(*rollout::NewTorchRunner(Config(), options, "cpu"));
  TimedRunner& timed = *runner;
  const bool bf16 = argc > 2 && std::string(argv[2]) == "bf16";
  const model::Parameters parameters = model::Parameters::Init(Config(), 1, bf16 ? at::kBFloat16 : at::kFloat);
  std::vector<weights::TensorView> views;
  for (const auto& [name, tensor] : parameters.tensors()) {
    views.push_back({name,
                     bf16 ? "BF16" : "F32",
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  rollout::Engine::Parts parts;
  parts.runner = std::move(runner);
  const auto engine = *rollout::Engine::Create(options, std::move(parts), *weights::Snapshot::Copy(0, views));

  std::printf("%lld parameters, %s, %d thread(s)\n%-8s %6s %14s %10s %12s %10s %10s\n",
              static_cast<long long>(Config().ParameterCount()), bf16 ? "bf16" : "fp32", options.threads, "prompts",
              "batch", "sampled tok/s", "per CPU s", "ms per pass", "passes", "model");
  uint64_t salt = 1;
  for (const char* prompts : {"own", "shared", "again"}) {
    for (const int batch : {1, 8, 32, 64}) {
      Round best;
      for (int round = 0; round < 3; ++round) {
        const bool again = prompts[0] == 'a';
        if (again) Run(*engine, timed, batch, true, ++salt);
        const Round now = Run(*engine, timed, batch, prompts[0] != 'o', again ? salt : ++salt);
        if (best.seconds == 0 || now.cpu_seconds < best.cpu_seconds) best = now;
      }
      std::printf("%-8s %6d %14.0f %10.0f %12.3f %10lld %9.0f%%\n", prompts, batch, batch * kNewTokens / best.seconds,
                  batch * kNewTokens / best.cpu_seconds, 1e3 * best.seconds / static_cast<double>(best.passes),
                  static_cast<long long>(best.passes), 100 * best.model_seconds / best.seconds);
    }
  }
  return 0;
}
