// What the benchmarks of engines that share KV have in common: engines with a random model, requests, and times.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/rng.h"
#include "kv/file_store.h"
#include "model/parameters.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/torch_runner.h"

namespace ingot::bench {

using Seconds = std::chrono::duration<double>;
using std::chrono::steady_clock;

inline constexpr int kChunkTokens = 64;

inline model::ModelConfig Config(int hidden, int layers, int longest) {
  model::ModelConfig config;
  config.vocab_size = 512;
  config.hidden_size = hidden;
  config.intermediate_size = 3 * hidden;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  config.head_dim = hidden / 8;
  config.max_position_embeddings = longest + 256;
  config.qk_norm = true;
  config.tie_word_embeddings = true;
  return config;
}

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  double first_seconds = 0, seconds = 0;
  int32_t cached = 0;
  bool Equals(const Answer& other) const { return ids == other.ids && logprobs == other.logprobs; }
};

inline v1::GenerateRequest Ask(uint64_t prompt, int tokens, int sampled) {
  v1::GenerateRequest ask;
  for (int i = 0; i < tokens; ++i) ask.add_prompt_ids(static_cast<int32_t>(base::DeriveSeed(prompt, i) % 512));
  ask.mutable_sampling()->set_temperature(1);
  ask.mutable_sampling()->set_seed(prompt);
  ask.mutable_sampling()->set_ignore_eos(true);
  ask.mutable_sampling()->set_max_new_tokens(sampled);
  ask.set_pinned_version(-1);
  return ask;
}

// Runs requests at once. Adds the seconds between the chunks of a request to `gaps` unless it is null.
inline std::vector<Answer> Run(rollout::Client& engine, const std::vector<v1::GenerateRequest>& asks,
                               std::vector<double>* gaps = nullptr) {
  base::Mutex mu;
  base::CondVar done;
  size_t left = asks.size();
  std::vector<Answer> answers(asks.size());
  std::vector<std::unique_ptr<rollout::Client::Request>> requests;
  const auto start = steady_clock::now();
  for (size_t i = 0; i < asks.size(); ++i) {
    requests.push_back(engine.Generate(asks[i], [&, &answer = answers[i]](absl::StatusOr<v1::GenerateChunk> chunk) {
      const double now = Seconds(steady_clock::now() - start).count();
      base::MutexLock lock(mu);
      if (!chunk.ok()) {
        std::fprintf(stderr, "%s\n", chunk.status().ToString().c_str());
        std::exit(1);
      }
      if (answer.first_seconds == 0) {
        answer.first_seconds = now;
      } else if (gaps != nullptr) {
        gaps->push_back(now - answer.seconds);
      }
      answer.seconds = now;
      answer.ids.insert(answer.ids.end(), chunk->token_ids().begin(), chunk->token_ids().end());
      answer.logprobs.insert(answer.logprobs.end(), chunk->logprobs().begin(), chunk->logprobs().end());
      if (chunk->finish() == v1::FINISH_UNSPECIFIED) return;
      answer.cached = chunk->cached_tokens();
      --left;
      done.Signal();
    }));
  }
  base::MutexLock lock(mu);
  while (left > 0) done.Wait(mu);
  return answers;
}

// Times in milliseconds.
class Times {
 public:
  void Add(double seconds) { ms_.push_back(1e3 * seconds); }
  double Median() { return At(ms_.size() / 2); }
  std::string Text() {
    char text[64];
    std::snprintf(text, sizeof(text), "%.1f (%.1f to %.1f)", Median(), At(0), At(ms_.size() - 1));
    return text;
  }

 private:
  double At(size_t i) {
    std::sort(ms_.begin(), ms_.end());
    return ms_[i];
  }
  std::vector<double> ms_;
};

// Engines with the same random bf16 weights, one compute thread each.
struct Bench {
  Bench(int hidden, int layers, int most) : longest(most), config(Config(hidden, layers, most)) {
    const model::Parameters parameters = model::Parameters::Init(config, 1, at::kBFloat16);
    std::vector<weights::TensorView> views;
    for (const auto& [name, tensor] : parameters.tensors()) {
      views.push_back({name,
                       "BF16",
                       tensor.sizes().vec(),
                       {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
    }
    weights = *weights::Snapshot::Copy(1, views);
  }

  // `path` is the folder of its store; empty = none.
  rollout::EngineOptions Options(const std::string& path, kv::Write write = kv::Write::kPrompts) const {
    rollout::EngineOptions options;
    options.kv_cache_tokens = 4 * longest + 4096;
    options.speculation.drafters = {};
    options.kv_store.path = path;
    options.kv_store.chunk_tokens = kChunkTokens;
    options.kv_store.write = write;
    return options;
  }

  static std::shared_ptr<kv::Store> Open(const rollout::EngineOptions& options) {
    auto store = kv::FileStore::Open(options.kv_store);
    if (store.ok()) return *std::move(store);
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    std::exit(1);
  }

  std::unique_ptr<rollout::Engine> Engine(const rollout::EngineOptions& options,
                                          std::shared_ptr<kv::Store> store) const {
    rollout::Engine::Parts parts;
    parts.runner = *rollout::NewTorchRunner(config, options, "cpu");
    parts.store = std::move(store);
    return *rollout::Engine::Create(options, std::move(parts), weights);
  }

  const int longest;
  const model::ModelConfig config;
  std::shared_ptr<const weights::Snapshot> weights;
};

}  // namespace ingot::bench
