// Conversations that a real engine sampled, in the trainer's form: branches at every offset of a key tile, hits of the
// radix cache, prompts computed in pieces, requests of any length side by side in a batch.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "kernels/attention/attention.h"
#include "model/parameters.h"
#include "rollout/collect.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/torch_runner.h"
#include "tree/forest.h"
#include "weights/snapshot.h"

namespace ingot::trainer {

inline std::shared_ptr<const weights::Snapshot> SnapshotOf(const model::Parameters& parameters, int64_t version) {
  std::vector<weights::TensorView> views;
  for (const auto& [name, tensor] : parameters.tensors()) {
    const char* dtype = tensor.scalar_type() == at::kBFloat16 ? "BF16" : "F32";
    views.push_back(
        {name, dtype, tensor.sizes().vec(), {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  return *weights::Snapshot::Copy(version, views);
}

inline std::unique_ptr<rollout::Engine> EngineOver(const model::ModelConfig& config,
                                                   const rollout::EngineOptions& options,
                                                   const model::Parameters& parameters,
                                                   std::shared_ptr<kernels::ComputeMember> compute = nullptr) {
  rollout::Engine::Parts parts;
  parts.runner = *rollout::NewTorchRunner(config, options, "cpu", std::move(compute));
  return *rollout::Engine::Create(options, std::move(parts), SnapshotOf(parameters, 0));
}

// Rounds of requests, drawn from a fixed seed.
class Brancher {
 public:
  Brancher(rollout::Engine& engine, int64_t vocab, uint64_t seed) : engine_(engine), vocab_(vocab), seed_(seed) {}

  // Runs all contexts at once, each for 4 to `most_new` tokens.
  void Round(const std::vector<std::vector<int32_t>>& contexts, int64_t most_new) {
    std::deque<rollout::Collect> results(contexts.size());
    std::vector<std::unique_ptr<rollout::Client::Request>> requests;
    const size_t first = calls.size();
    for (size_t i = 0; i < contexts.size(); ++i) {
      tree::CallPath call;
      call.call_id = absl::StrCat("call-", calls.size());
      call.temperature = i % 3 == 0 ? 0.7f : 1.0f;
      call.context = tree::TokenPath(contexts[i]);
      calls.push_back(call);
      v1::GenerateRequest ask;
      ask.mutable_prompt_ids()->Add(contexts[i].begin(), contexts[i].end());
      ask.mutable_sampling()->set_temperature(call.temperature);
      ask.mutable_sampling()->set_seed(base::DeriveSeed(seed_, calls.size()));
      ask.mutable_sampling()->set_max_new_tokens(static_cast<int32_t>(4 + Below(most_new - 3)));
      ask.mutable_sampling()->set_ignore_eos(true);
      ask.set_pinned_version(-1);
      requests.push_back(engine_.Generate(ask, results[i].OnChunk()));
    }
    for (size_t i = 0; i < contexts.size(); ++i) {
      const absl::Status status = results[i].Wait();
      EXPECT_TRUE(status.ok()) << status;
      tree::CallPath& call = calls[first + i];
      call.sampled.assign(results[i].ids.begin(), results[i].ids.end());
      call.logprobs = results[i].logprobs;
      tree::AppendRoutes(results[i].routes, call.routes);
      call.versions.assign(call.logprobs.size(), 0);
      call.kv_mixed.assign(call.logprobs.size(), 0);
      sampled += static_cast<int64_t>(call.logprobs.size());
    }
  }

  int64_t Below(int64_t bound) { return static_cast<int64_t>(base::DeriveSeed(seed_, ~draws_++) % bound); }
  std::vector<int32_t> Tokens(int64_t count) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(Below(vocab_)));
    return tokens;
  }

  std::vector<tree::CallPath> calls;
  int64_t sampled = 0;

 private:
  rollout::Engine& engine_;
  const int64_t vocab_;
  const uint64_t seed_;
  uint64_t draws_ = 0;
};

inline std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A prompt that forks once at every offset of a tile. Each fork continues for a turn, and is then rewritten from some
// place within its sampled ids. Two prompts give the forest two roots. About 64 * `rounds` * most_new / 2 tokens.
inline void SampleBranches(Brancher& b, int64_t most_new, int rounds = 3) {
  const auto spine = b.Tokens(70 + kernels::kKeyTile), other = b.Tokens(37);
  std::vector<std::vector<int32_t>> contexts;
  for (int64_t k = 0; k < kernels::kKeyTile; ++k) {
    contexts.push_back(Joined({spine.begin(), spine.begin() + 70 + k}, b.Tokens(1 + b.Below(5))));
  }
  for (int i = 0; i < 4; ++i) contexts.push_back(Joined(other, b.Tokens(1 + b.Below(40))));
  for (int round = 0; round < rounds; ++round) {
    b.Round(contexts, most_new);
    std::vector<std::vector<int32_t>> next;
    for (size_t i = b.calls.size() - contexts.size(); i < b.calls.size(); ++i) {
      const tree::CallPath& call = b.calls[i];
      const std::vector<int32_t> tokens = call.Tokens();
      auto end = tokens.end();
      if (round % 2 == 1) end -= b.Below(static_cast<int64_t>(call.logprobs.size()));  // rewritten: a fork
      next.push_back(Joined({tokens.begin(), end}, b.Tokens(1 + b.Below(20))));
    }
    contexts = std::move(next);
  }
}

// A model with peaked distributions, so that a difference anywhere shows.
inline model::ModelConfig BranchingConfig(at::ScalarType dtype, int64_t vocab = 211) {
  model::ModelConfig config;
  config.vocab_size = vocab;
  config.hidden_size = 96;
  // bf16: the sums are so long that a library would cut them differently for few rows than for many.
  config.intermediate_size = dtype == at::kBFloat16 ? 1600 : 160;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 32;
  config.max_position_embeddings = 1024;
  config.qk_norm = true;
  return config;
}

inline model::Parameters BranchingParameters(const model::ModelConfig& config, at::ScalarType dtype) {
  model::Parameters parameters = model::Parameters::Init(config, 5, at::kFloat);
  for (auto& [name, tensor] : parameters.tensors()) {
    if (tensor.dim() == 2) tensor.mul_(4.0);
    tensor = tensor.to(dtype);
  }
  return parameters;
}

}  // namespace ingot::trainer
