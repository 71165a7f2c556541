// Engines on a real (small, random) transformer, and what they answer.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/parameters.h"
#include "rollout/collect.h"
#include "rollout/engine.h"
#include "rollout/fake_tokenizer.h"
#include "rollout/torch_runner.h"

namespace ingot::rollout {

inline constexpr int32_t kIds = 61;
inline model::ModelConfig Shape() {
  model::ModelConfig config;
  config.vocab_size = kIds;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 256;
  config.qk_norm = true;
  return config;
}

inline std::shared_ptr<const weights::Snapshot> RandomWeights(int64_t version, at::ScalarType dtype) {
  model::Parameters parameters = model::Parameters::Init(Shape(), static_cast<uint64_t>(version), dtype);
  std::vector<weights::TensorView> views;
  for (auto& [name, tensor] : parameters.tensors()) {
    if (tensor.dim() == 2) tensor.mul_(6);  // likely and unlikely tokens
    views.push_back({name,
                     dtype == at::kBFloat16 ? "BF16" : "F32",
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  return *weights::Snapshot::Copy(version, views);
}

inline std::unique_ptr<Engine> EngineOf(EngineOptions options, at::ScalarType dtype,
                                        std::vector<std::unique_ptr<Drafter>> drafters) {
  if (drafters.empty()) options.speculation.drafters = {};
  options.speculation.min_gain = -1;
  Engine::Parts parts;
  parts.runner = *NewTorchRunner(Shape(), options, "cpu");
  parts.drafters = std::move(drafters);
  std::vector<std::string> pieces;
  for (int32_t id = 0; id < kIds; ++id) pieces.push_back(std::string(1, static_cast<char>('A' + id)));
  parts.tokenizer = std::make_shared<PieceTokenizer>(pieces);
  auto engine = *Engine::Create(options, std::move(parts), RandomWeights(1, dtype));
  EXPECT_TRUE(engine->Update(*weights::Encode(engine->newest().get(), *RandomWeights(2, dtype), true)).ok());
  EXPECT_TRUE(engine->Update(*weights::Encode(engine->newest().get(), *RandomWeights(3, dtype), false)).ok());
  return engine;
}

struct Outcome {
  absl::Status status;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::vector<std::pair<int64_t, bool>> versions;
  std::string tops, stop;
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  bool operator==(const Outcome&) const = default;
};

inline std::vector<Outcome> Outcomes(Engine& engine, std::span<const v1::GenerateRequest> asks) {
  std::deque<Collect> results(asks.size());
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (size_t i = 0; i < asks.size(); ++i) requests.push_back(engine.Generate(asks[i], results[i].OnChunk()));
  std::vector<Outcome> outcomes;
  for (Collect& result : results) {
    Outcome& outcome = outcomes.emplace_back();
    outcome.status = result.Wait();
    outcome.ids = result.ids;
    outcome.logprobs = result.logprobs;
    for (const v1::VersionRun& run : result.versions) {
      for (int i = 0; i < run.count(); ++i) outcome.versions.emplace_back(run.version(), run.kv_mixed());
    }
    for (const v1::TopLogprobs& top : result.top) outcome.tops += top.SerializeAsString();
    outcome.stop = result.last.stop_string();
    outcome.finish = result.last.finish();
  }
  return outcomes;
}

}  // namespace ingot::rollout
